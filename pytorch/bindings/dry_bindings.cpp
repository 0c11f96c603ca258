#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/characterization.h"
#include "bindings/bindings.h"
#include "running_op.h"
#include "session/dry_session.h"
#include "storages/fake_storage.h"
#include "storages/inner_tensors.h"
#include "trace/trace_file.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

// Returns the facts that `teraio dry-run` prints.
py::dict summary(const DryTrace& dry) {
  using namespace py::literals;
  const analysis::PeakMemory peak = analysis::memory_at_peak(dry.trace);
  py::list peak_kinds;
  for (const analysis::KindBytes& entry : peak.kinds)
    peak_kinds.append(py::make_tuple(to_string(entry.kind), entry.size_bytes));
  return py::dict("op_count"_a = dry.iteration.op_count,
                  "tensor_count"_a = dry.trace.tensors.size(),
                  "step_ns"_a = trace::ideal_ns(dry.trace),
                  "device_peak_bytes"_a = dry.iteration.device_peak_bytes,
                  "peak_op"_a = dry.trace.ops[peak.op].name, "peak_kinds"_a = peak_kinds);
}

void save(DryTrace dry, const std::filesystem::path& path, const std::string& source) {
  dry.trace.source = source;
  raise_unless_ok(write_trace(dry.trace, path));
}

void add_births(DrySession& session, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (c10::StorageImpl* storage =
            tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl())
      session.add_birth(*storage);
    else if (!is_wrapper(tensor))
      add_births(session, inner_tensors(tensor));
  }
}

py::object call_on_parts(const py::object& function, const py::args& arguments,
                         const py::kwargs& options) {
  const ObservedParts parts;
  return function(*arguments, **options);
}

// Adds up what the calling thread takes from PyTorch's CPU allocator, in place of a profiler.
struct AllocationWatch : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void* /*memory*/, int64_t size_bytes, size_t /*total_allocated*/,
                         size_t /*total_reserved*/, c10::Device /*device*/) override {
    now_bytes += size_bytes;
    peak_bytes = std::max(peak_bytes, now_bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t now_bytes = 0;
  int64_t peak_bytes = 0;
};

int64_t workspace_of(const py::object& function, const py::args& arguments,
                     const py::kwargs& options) {
  const auto watch = std::make_shared<AllocationWatch>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, watch);
  const py::object result = function(*arguments, **options);
  return watch->peak_bytes - std::max<int64_t>(watch->now_bytes, 0);
}

}  // namespace

void bind_dry_session(py::module_& module) {
  module.def("running_op", [] { return current_op_name(); });
  module.def("call_on_parts", &call_on_parts,
             "Calls a function inside the dispatch of a wrapper; its ops are observed.");
  module.def("workspace_of", &workspace_of,
             "Calls a function on the CPU. Returns the most bytes that it had beyond its results.");
  py::class_<DryTrace>(module, "DryTrace")
      .def("name", [](const DryTrace& dry) { return dry.trace.name; })
      .def("summary", &summary)
      .def("save", &save, py::arg("path"), py::arg("source"));
  py::class_<DrySession>(module, "DrySession")
      .def(py::init([](int64_t device_memory_bytes) {
             return std::make_unique<DrySession>(DrySessionOptions{device_memory_bytes});
           }),
           py::arg("device_memory_bytes"))
      .def("start", [](DrySession& session) { raise_unless_ok(session.start()); })
      .def("stop", [](DrySession& session) { raise_unless_ok(session.stop()); })
      .def("begin_step", [](DrySession& session) { session.begin_step(); })
      .def("begin_own_work", [](DrySession& session) { return session.runtime().begin_own_work(); })
      .def("end_own_work",
           [](DrySession& session, int64_t start_ns) { session.runtime().end_own_work(start_ns); })
      .def("end_step", &DrySession::end_step, py::arg("optimizer") = 0)
      .def("add_births", &add_births)
      .def("resize",
           [](DrySession& session, const py::object& storage) {
             session.resize(*torch::createStorage(storage.ptr()).unsafeGetStorageImpl());
           })
      .def("spend",
           [](DrySession& session, int64_t duration_ns, int64_t workspace_bytes) {
             raise_unless_ok(session.spend(duration_ns, workspace_bytes));
           })
      .def("unmovable_bytes",
           [](DrySession& session) { return session.runtime().figures(true).unmovable_bytes; })
      .def("has_trace",
           [](DrySession& session) { return !session.runtime().figures().trace_name.empty(); })
      .def("iteration_count",
           [](DrySession& session) { return session.runtime().figures().iteration_count; })
      .def("trace", &DrySession::trace)
      .def("last_trace", &DrySession::last_trace);
}

}  // namespace teraio::pytorch
