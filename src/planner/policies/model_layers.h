// Model layers: groups of consecutive ops that belong to one layer of the model, as layer-wise
// systems see them. Pure functions; any thread may call them.
#pragma once

#include <vector>

#include "trace/trace.h"

namespace teraio::planner {

// Returns the layer of each op, numbered from 0 in execution order; a layer that runs twice
// (forward, backward) counts twice. A layer is recognized by the name of the op ("l7.mlp",
// "layers.7.attention") or of a parameter that it uses. Where names show no layers, a new layer
// begins at an op that uses a parameter once the current layer takes more than 1/256 of the
// iteration.
std::vector<int32_t> layer_of_ops(const trace::Trace& trace);

// Returns the first op of each layer.
std::vector<trace::OpIndex> layer_starts(const std::vector<int32_t>& layer_of_op);

}  // namespace teraio::planner
