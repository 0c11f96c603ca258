// SearchConfig: the parameters of a sequence of rounds of the search.
//
// No parameters are best for every trace. The portfolios hold the ones that have been best
// somewhere, the most useful ones first; drawn_config() gives as many others as there is time for.
#pragma once

#include <cstdint>
#include <span>

namespace teraio::planner {

// Each round plans on the timeline that the execution of the round before it showed.
struct SearchConfig {
  int rounds = 0;
  bool starts_ideal = false;   // on the ideal timeline instead of the best one known
  double tolerance = 0.05;     // of the greedy choice: see select_in_time()
  double price_floor = 0.1;    // the price of time where nothing stalls
  double price_reach = 0.02;   // how far a stall raises prices around it, as a share of the step
  double price_memory = 0.5;   // the weight of the prices of earlier rounds
  bool prices_writes = false;  // time has its price for writes too, and not for reads alone
  bool early_writes = true;
  bool reserves_host = false;    // reserve host room for the minimum write set
  double ssd_write_price = 1;    // see PlanBuilderOptions
  double host_price = 0;         // see PlanBuilderOptions
  double latency_share_max = 1;  // see PlanBuilderOptions
  // Of two rounds in three: see PlanBuilderOptions.
  double drive_share = 1;
  // Of the budget, left free by moves where bandwidth allows it: writes that end late then keep
  // fewer reads waiting, for more bytes that move. 0: moves that no op needs are reverted.
  double headroom_share = 0;
};

std::span<const SearchConfig> fast_configs(bool has_relays);
std::span<const SearchConfig> best_configs();

// For a write budget that binds. How tight the budget is decides which price of writes is right,
// and whether host room must be reserved for the minimum write set.
std::span<const SearchConfig> fast_budget_configs();
std::span<const SearchConfig> best_budget_configs();

// Returns the configuration with this number of an endless sequence: the parameters that matter,
// drawn at random from the ranges of the portfolios, the same ones in every run. A pure function.
SearchConfig drawn_config(uint32_t number);

}  // namespace teraio::planner
