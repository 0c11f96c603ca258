// Model layers: groups of consecutive ops that belong to one layer of the model, as layer-wise
// systems see them.
#pragma once

#include <vector>

#include "trace/trace.h"

namespace teraio::planner {

// The layer of each op, counted from 0 in the order of execution; a layer that is passed twice
// (forward, backward) counts twice. Told by op names ("l7.mlp", "layers.7.attention"); where those
// do not tell, a run from one parameter to a later one that takes at least 1/256 of the iteration.
std::vector<int32_t> layer_of_ops(const trace::Trace& trace);

// The first op of each layer.
std::vector<trace::OpIndex> layer_starts(const std::vector<int32_t>& layer_of_op);

}  // namespace teraio::planner
