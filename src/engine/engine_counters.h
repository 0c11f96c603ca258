// EngineCounters: what an engine has done since it was made. A value.
#pragma once

#include <cstdint>

namespace teraio::engine {

// Why an op waits.
enum class StallCause : uint8_t {
  kNone,    // none does
  kRead,    // bytes come back
  kMemory,  // memory becomes free
};

struct ReplayCounters {
  int64_t discards = 0;  // tensors that left to be made again
  int64_t planned = 0;
  int64_t on_demand = 0;  // of discarded tensors that were needed before their plan said so
  int64_t banned = 0;     // ops that gave other bytes when they ran again
  // Where replays are verified: tensors that were made with the bytes that were discarded, and
  // times that they were not.
  int64_t verified = 0;
  int64_t differing = 0;
  int64_t duration_ns = 0;  // of the thread that ran them
};

struct EngineCounters {
  int64_t planned_offloads = 0;
  int64_t planned_drops = 0;
  int64_t planned_prefetches = 0;
  int64_t skipped_migrations = 0;  // planned, but the tensor was absent, in use, or already moved
  int64_t on_demand_offloads = 0;
  int64_t on_demand_drops = 0;
  int64_t urgent_reads = 0;     // reads that an op waited for from the start
  int64_t late_prefetches = 0;  // planned reads that an op had to wait for
  int64_t failed_transfers = 0;
  int64_t relocations = 0;  // tensors that moved on the device to make room for others
  int64_t relocated_bytes = 0;
  ReplayCounters replays;
  int64_t stall_read_ns = 0;    // waiting for bytes to come back
  int64_t stall_memory_ns = 0;  // waiting for memory to become free

  void add_stall(StallCause cause, int64_t duration_ns) {
    if (cause == StallCause::kRead) stall_read_ns += duration_ns;
    if (cause == StallCause::kMemory) stall_memory_ns += duration_ns;
  }
  int64_t stall_ns() const { return stall_read_ns + stall_memory_ns; }
};

}  // namespace teraio::engine
