#include "planner/search_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace teraio::planner {
namespace {

constexpr SearchConfig kFirst = {.rounds = 3, .starts_ideal = true, .drive_share = 0.6};
constexpr SearchConfig kSecond = {.rounds = 3, .host_price = 0.7};
constexpr SearchConfig kSecondWithRelays = {.rounds = 3,
                                            .tolerance = 0.023,
                                            .price_reach = 0.033,
                                            .price_memory = 0.8,
                                            .host_price = 0.6,
                                            .headroom_share = 0.03};
constexpr std::array kFast = {kFirst, kSecond};
constexpr std::array kFastWithRelays = {kFirst, kSecondWithRelays};
constexpr std::array<SearchConfig, 13> kBest = {
    SearchConfig{.rounds = 10, .starts_ideal = true},
    SearchConfig{.rounds = 10,
                 .tolerance = 0.036,
                 .price_floor = 0.032,
                 .price_reach = 0.002,
                 .price_memory = 0.6,
                 .drive_share = 0.53,
                 .headroom_share = 0.03},
    SearchConfig{.rounds = 10,
                 .tolerance = 0.023,
                 .price_reach = 0.033,
                 .price_memory = 0.8,
                 .host_price = 0.48,
                 .headroom_share = 0.03},
    SearchConfig{.rounds = 10, .host_price = 0.7, .headroom_share = 0.03},
    SearchConfig{.rounds = 10, .starts_ideal = true, .drive_share = 0.6},
    SearchConfig{.rounds = 10,
                 .price_floor = 0.05,
                 .prices_writes = true,
                 .host_price = 0.3,
                 .headroom_share = 0.02},
    SearchConfig{.rounds = 10, .tolerance = 0.02, .price_floor = 0.05, .prices_writes = true},
    SearchConfig{.rounds = 8, .price_reach = 0.005, .headroom_share = 0.03},
    SearchConfig{.rounds = 10,
                 .tolerance = 0.01,
                 .price_floor = 0.05,
                 .latency_share_max = 0.006,
                 .headroom_share = 0.05},
    SearchConfig{.rounds = 8,
                 .tolerance = 0.01,
                 .price_reach = 0.05,
                 .price_memory = 0.8,
                 .prices_writes = true},
    SearchConfig{.rounds = 8, .price_floor = 1.0},
    SearchConfig{.rounds = 12, .tolerance = 0.0, .price_floor = 0.02, .price_memory = 0.7},
    SearchConfig{.rounds = 8, .early_writes = false}};

constexpr std::array<SearchConfig, 4> kFastBudget = {
    SearchConfig{.rounds = 2, .ssd_write_price = 4},
    SearchConfig{.rounds = 2, .ssd_write_price = 16},
    SearchConfig{.rounds = 2, .reserves_host = true},
    SearchConfig{.rounds = 2, .reserves_host = true, .ssd_write_price = 4}};
constexpr std::array<SearchConfig, 6> kBestBudget = {
    SearchConfig{.rounds = 5, .ssd_write_price = 2},
    SearchConfig{.rounds = 5, .ssd_write_price = 4},
    SearchConfig{.rounds = 5, .ssd_write_price = 8},
    SearchConfig{.rounds = 5, .ssd_write_price = 16},
    SearchConfig{.rounds = 5, .reserves_host = true},
    SearchConfig{.rounds = 5, .reserves_host = true, .ssd_write_price = 4}};

}  // namespace

std::span<const SearchConfig> fast_configs(bool has_relays) {
  return has_relays ? kFastWithRelays : kFast;
}
std::span<const SearchConfig> best_configs() { return kBest; }
std::span<const SearchConfig> fast_budget_configs() { return kFastBudget; }
std::span<const SearchConfig> best_budget_configs() { return kBestBudget; }

// The distributions of the standard library differ from one implementation to the next.
SearchConfig drawn_config(uint32_t number) {
  std::mt19937 random(number);
  const auto uniform = [&random](double low, double high) {
    return low + (high - low) * static_cast<double>(random()) / std::mt19937::max();
  };
  const auto log_uniform = [&uniform](double low, double high) {
    return low * std::exp(uniform(0, std::log(high / low)));
  };
  SearchConfig config{.rounds = 8};
  config.tolerance = std::max(0.0, uniform(-0.01, 0.05));
  config.price_floor = log_uniform(0.01, 0.5);
  config.price_reach = log_uniform(0.002, 0.1);
  config.price_memory = uniform(0.3, 0.9);
  config.prices_writes = uniform(0, 1) < 0.6;
  config.early_writes = uniform(0, 1) < 0.9;
  config.latency_share_max = uniform(0, 1) < 0.7 ? 1 : log_uniform(0.003, 0.1);
  config.host_price = uniform(0, 1) < 0.5 ? 0 : log_uniform(0.1, 4);
  config.drive_share = uniform(0, 1) < 0.5 ? 1 : uniform(0.4, 1);
  config.headroom_share = uniform(0, 1) < 0.3 ? 0 : uniform(0, 0.06);
  return config;
}

}  // namespace teraio::planner
