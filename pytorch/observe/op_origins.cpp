#include "observe/op_origins.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <string>
#include <tuple>

#include "interrupts.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// From the frames of Python code that this thread executes.
iteration::OpOrigin origin_in_python() {
  if (Py_IsInitialized() == 0) return {};
  const py::gil_scoped_acquire gil;
  const py::error_scope error_in_flight;
  try {
    const auto [module, line] = py::module_::import("teraio.hooks.op_origins")
                                    .attr("origin_of_op")()
                                    .cast<std::tuple<std::string, std::string>>();
    return {iteration::kept_text(module), iteration::kept_text(line)};
  } catch (const py::error_already_set& error) {
    raise_after_op(error);
    return {};
  }
}

}  // namespace

uint64_t graph_node_count() { return at::sequence_number::peek(); }

iteration::OpOrigin OpOrigins::find() const {
  if (const auto node = torch::autograd::get_current_node()) {
    const std::lock_guard lock(mutex_);
    const auto made = nodes_.lower_bound({node->thread_id(), node->sequence_nr()});
    if (made != nodes_.end() && made->first.first == node->thread_id() &&
        made->second.first <= node->sequence_nr()) {
      iteration::OpOrigin origin = made->second.origin;
      origin.is_backward = true;
      return origin;
    }
  }
  return origin_in_python();
}

void OpOrigins::note_nodes(uint64_t first_node, const iteration::OpOrigin& origin) {
  const uint64_t node_count = graph_node_count();
  if (node_count == first_node || origin.is_backward) return;
  const std::lock_guard lock(mutex_);
  nodes_[{at::RecordFunction::currentThreadId(), node_count - 1}] = {first_node, origin};
}

void OpOrigins::forget_nodes() {
  const std::lock_guard lock(mutex_);
  nodes_.clear();
}

void find_origin(const ActiveSession& session, const engine::OpRequests& requests,
                 engine::OpFacts& facts) {
  if (!requests.is_origin_wanted) return;
  facts.origin = requests.known_origin;
  if (!facts.origin) {
    const int64_t start_ns = session.runtime->begin_own_work();
    facts.origin = session.origins->find();
    facts.own_work_ns = session.runtime->end_own_work(start_ns);
  }
  facts.origin->is_without_gradients = !c10::GradMode::is_enabled();
}

}  // namespace teraio::pytorch
