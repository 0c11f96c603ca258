// Lower bounds on the bytes that cross the device link between two ops, by Belady's rule on tensors
// that may be divided into bytes (see bounds.h). Pure functions; any thread may call them.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace_index.h"

namespace teraio::planner {

// Ops are unrolled: op N + k is op k of the next iteration.
//
// Element j is the least number of bytes read between the start of op `first` and the start of op
// first + j, for j from 0 to `op_count`, whatever is on the device when op `first` starts.
std::vector<int64_t> min_reads(const trace::TraceIndex& index, int64_t budget_bytes, int64_t first,
                               int64_t op_count);

// Element j is the least number of bytes written between the start of op last - j and the start of
// op `last`, for j from 0 to `op_count`, whatever is on the device at the end.
std::vector<int64_t> min_writes(const trace::TraceIndex& index, int64_t budget_bytes, int64_t last,
                                int64_t op_count);

}  // namespace teraio::planner
