// JoinedTrace: the traces of several steps, one after the other, as one trace.
//
// A persistent tensor of several traces is one tensor of the joined trace: they have the same name
// and size, or the same id and size where they have no name. Ids agree in traces of one session.
// Every other tensor is a tensor of its own in each step.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trace/trace.h"

namespace teraio::simulate {

// A value type that does not refer to the traces. Persistent tensors come first in `trace`, and ids
// are positions.
struct JoinedTrace {
  trace::Trace trace;
  size_t persistent_count = 0;
  std::vector<trace::OpIndex> first_op;                  // per step; the last one is the op count
  std::vector<std::vector<trace::TensorIndex>> tensors;  // per step: of its trace, in `trace`
};

// Requires valid traces, at least one. A pure function; any thread may call it.
JoinedTrace join_traces(std::span<const trace::Trace* const> traces);

// Returns whether a persistent tensor occurs in both traces.
bool share_tensors(const trace::Trace& a, const trace::Trace& b);

}  // namespace teraio::simulate
