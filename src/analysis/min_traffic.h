// MinTraffic: bytes that have to cross the device link, at least, between two ops.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace_index.h"

namespace teraio::analysis {

// Ops count over repeated iterations: op N + k is op k of the second one.
//
// Element j is the least number of bytes read between the start of op `first` and the start of op
// first + j, for j up to `op_count`, whatever is on the device when op `first` starts.
std::vector<int64_t> min_reads(const trace::TraceIndex& index, int64_t budget_bytes, int64_t first,
                               int64_t op_count);

// Element j is the least number of bytes written between the start of op last - j and the start of
// op `last`, whatever is on the device at the end.
std::vector<int64_t> min_writes(const trace::TraceIndex& index, int64_t budget_bytes, int64_t last,
                                int64_t op_count);

}  // namespace teraio::analysis
