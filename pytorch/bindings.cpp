// The Python module teraio._C: converts arguments and results, and forwards to the session.
#include <fmt/ranges.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "adoption.h"
#include "base/log.h"
#include "captured_storages.h"
#include "collective.h"
#include "ddp_bindings.h"
#include "device/system_memory.h"
#include "dry_bindings.h"
#include "engine/difference_log.h"
#include "engine/pattern_tracker.h"
#include "forked_child.h"
#include "generated_code.h"
#include "interrupts.h"
#include "living_objects.h"
#include "observed_thread.h"
#include "op_error.h"
#include "op_pins.h"
#include "opaque_op.h"
#include "python_error.h"
#include "python_threads.h"
#include "session.h"
#include "storage_swap.h"
#include "tensor_handle.h"
#include "trace/trace_file.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

using namespace py::literals;  // "name"_a = value is an entry of a dict

// Returns null for an undefined tensor and for one without a storage, such as a sparse tensor.
c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Returns the storage of a torch.Tensor or a torch.UntypedStorage.
c10::StorageImpl* storage_of(const py::handle& object) {
  if (THPVariable_Check(object.ptr())) return storage_of(THPVariable_Unpack(object.ptr()));
  return torch::createStorage(object.ptr()).unsafeGetStorageImpl();
}

// Raises for a call that a handler of signals may have ended. Needs the GIL.
void raise_unless_done(const Status& status) {
  if (status.code() == ErrorCode::kInterrupted) throw_interrupt(status);
  raise_unless_ok(status);
}

// Returns the storage's handle. If no op of the running session has used the storage yet, adopts
// it, so that its address does not change later.
TensorHandle* adopted_handle_of(c10::StorageImpl& storage) {
  if (TensorHandle* handle = handle_of(storage)) return handle;
  const SessionUse use;
  ActiveSession* session = use.get();
  if (session == nullptr || session->is_dry || is_forked_child()) return nullptr;
  const py::gil_scoped_release no_gil;
  return adopt(*session, storage);
}

// Restores a tensor and keeps it resident until release() or the object's end. It also keeps the
// storage alive. It has no effect on a tensor that no session manages, and in a forked child.
// `adopts`: the session of the process manages the tensor from now on if it can.
class Pin {
 public:
  Pin(c10::StorageImpl* storage, bool adopts) {
    if (storage == nullptr) return;
    TensorHandle* handle = adopts ? adopted_handle_of(*storage) : handle_of(*storage);
    if (handle == nullptr || is_forked_child()) return;
    storage_ = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
    runtime_ = handle->runtime;
    tensor_ = handle->tensor;
    const py::gil_scoped_release no_gil;
    remember_storage(*handle, *storage);
    const StorageReferenceGuard guard;
    // The program may change the bytes without an op.
    if (const Status status = runtime_->pin(tensor_, /*is_write=*/true); !status.ok()) {
      tensor_ = nullptr;
      throw_status(status, "");
    }
  }

  ~Pin() { release(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  void release() {
    if (tensor_ == nullptr || is_forked_child()) return;
    const py::gil_scoped_release no_gil;
    runtime_->unpin(std::exchange(tensor_, nullptr), /*is_write=*/true);
  }

 private:
  c10::intrusive_ptr<c10::StorageImpl> storage_;  // keeps the tensor alive
  std::shared_ptr<engine::Runtime> runtime_;
  engine::LiveTensor* tensor_ = nullptr;
};

// Whatever takes the runtime's lock or waits is called without the GIL: a thread that holds the
// lock may need the GIL before it lets go, in the device's allocator for example.
template <typename Call>
auto without_gil(Call call) {
  const py::gil_scoped_release no_gil;
  return call();
}

// Keeps the storage where it is. Returns its bytes if they did not count against the budget yet.
int64_t keep_in_place(c10::StorageImpl* storage) {
  const SessionUse use;
  const ActiveSession* session = use.get();
  if (storage == nullptr || session == nullptr || session->is_dry || is_forked_child()) return 0;
  return without_gil([&] { return keep_in_place(*session, *storage); });
}

// Returns a list of the storages and whether it is complete.
py::tuple aliases(const Session& session) {
  const Aliases found = session.find_aliases();
  py::list storages;
  for (const auto& storage : found.storages)
    storages.append(py::reinterpret_steal<py::object>(torch::createPyObject(storage)));
  return py::make_tuple(storages, found.is_complete);
}

// Pins the tensor permanently, or keeps it in place if no op has used it yet. Returns false when no
// session manages it, and in a forked child.
bool pin_address(const py::object& tensor) {
  c10::StorageImpl* storage = storage_of(tensor);
  TensorHandle* handle = storage == nullptr ? nullptr : handle_of(*storage);
  if (is_forked_child()) return false;
  if (handle == nullptr) return keep_in_place(storage) > 0;
  const py::gil_scoped_release no_gil;
  const StorageReferenceGuard guard;
  remember_storage(*handle, *storage);
  if (const Status status = handle->runtime->pin_permanently(handle->tensor); !status.ok())
    throw_status(status, "");
  return true;
}

// Pins the tensor until the op ends that this thread runs. Returns false when it runs none, or no
// session manages the tensor.
bool pin_until_op_ends(const py::object& tensor) {
  const SessionUse use;
  ActiveSession* session = use.get();
  c10::StorageImpl* storage = storage_of(tensor);
  TensorHandle* handle = storage == nullptr ? nullptr : handle_of(*storage);
  if (session == nullptr || session->is_dry || handle == nullptr || is_forked_child()) return false;
  return without_gil([&] { return pin_until_op_ends(*session, handle->tensor); });
}

// `written` holds the indices of the inputs that the code changes.
std::unique_ptr<OpaqueOp> begin_opaque_op(const std::string& name,
                                          const std::vector<at::Tensor>& inputs,
                                          const std::vector<size_t>& written) {
  std::vector<OpaqueInput> named;
  for (const at::Tensor& input : inputs) named.push_back({&input, false});
  for (const size_t i : written) named.at(i).is_write = true;
  return std::make_unique<OpaqueOp>(opaque_op_info(name), named);
}

py::dict to_dict(const device::MemoryUsage& usage) {
  return py::dict("device_budget_bytes"_a = usage.budget_bytes,
                  "device_bytes"_a = usage.allocated_bytes,
                  "device_peak_bytes"_a = usage.allocated_peak_bytes,
                  "device_reserved_bytes"_a = usage.reserved_bytes,
                  "device_reserved_peak_bytes"_a = usage.reserved_peak_bytes,
                  "device_rounding_bytes"_a = usage.rounding_bytes,
                  "device_largest_free_bytes"_a = usage.largest_free_bytes,
                  "stitch_count"_a = usage.stitch_count);
}

py::dict to_dict(const engine::EngineCounters& c) {
  return py::dict(
      "planned_offloads"_a = c.planned_offloads, "planned_drops"_a = c.planned_drops,
      "planned_prefetches"_a = c.planned_prefetches, "skipped_migrations"_a = c.skipped_migrations,
      "on_demand_offloads"_a = c.on_demand_offloads, "on_demand_drops"_a = c.on_demand_drops,
      "urgent_reads"_a = c.urgent_reads, "late_prefetches"_a = c.late_prefetches,
      "failed_transfers"_a = c.failed_transfers, "discards"_a = c.discards,
      "planned_replays"_a = c.planned_replays, "on_demand_replays"_a = c.on_demand_replays,
      "banned_replays"_a = c.banned_replays, "verified_replays"_a = c.verified_replays,
      "differing_replays"_a = c.differing_replays, "replay_ns"_a = c.replay_ns,
      "stall_read_ns"_a = c.stall_read_ns, "stall_memory_ns"_a = c.stall_memory_ns);
}

py::dict to_dict(const storage::DriveCounters& drive) {
  return py::dict("name"_a = drive.name, "io_path"_a = drive.io_path,
                  "gpu_direct_off"_a = drive.gpu_direct_off,
                  "gpu_direct_bytes_read"_a = drive.gpu_direct_bytes_read,
                  "gpu_direct_bytes_written"_a = drive.gpu_direct_bytes_written,
                  "bytes_read"_a = drive.bytes_read, "bytes_written"_a = drive.bytes_written,
                  "read_busy_ns"_a = drive.read_busy_ns, "write_busy_ns"_a = drive.write_busy_ns,
                  "read_bytes_per_second"_a = drive.recent_rates.read_bytes_per_second,
                  "write_bytes_per_second"_a = drive.recent_rates.write_bytes_per_second,
                  "error_count"_a = drive.error_count,
                  "unanswered_count"_a = drive.unanswered_count, "slowdown"_a = drive.slowdown);
}

// Adds `entries` to `target`.
void update(py::dict& target, const py::dict& entries) { target.attr("update")(entries); }

const char* mode_name(engine::IterationRecord::Mode mode) {
  switch (mode) {
    case engine::IterationRecord::Mode::kOnDemand:
      return "on demand";
    case engine::IterationRecord::Mode::kPlanned:
      return "planned";
    case engine::IterationRecord::Mode::kDeviated:
      return "deviated";
  }
  return "unknown";
}

py::dict to_dict(const engine::IterationRecord& record) {
  return py::dict("duration_ns"_a = record.duration_ns, "stall_read_ns"_a = record.stall_read_ns,
                  "stall_memory_ns"_a = record.stall_memory_ns,
                  "ssd_bytes_read"_a = record.ssd_bytes_read,
                  "ssd_bytes_written"_a = record.ssd_bytes_written,
                  "host_bytes_read"_a = record.host_bytes_read,
                  "host_bytes_written"_a = record.host_bytes_written,
                  "device_peak_bytes"_a = record.device_peak_bytes, "op_count"_a = record.op_count,
                  "planned_op_count"_a = record.planned_op_count, "pattern"_a = record.pattern,
                  "mode"_a = mode_name(record.mode));
}

py::dict to_dict(const engine::PatternSummary& pattern) {
  return py::dict("id"_a = pattern.id, "name"_a = pattern.name, "op_count"_a = pattern.op_count,
                  "iterations"_a = pattern.iteration_count, "ops"_a = pattern.ops_run,
                  "planned_ops"_a = pattern.ops_planned, "plans"_a = pattern.plan_count,
                  "is_planned"_a = pattern.plan_count > 0, "is_irregular"_a = pattern.is_irregular,
                  "size_bytes"_a = pattern.size_bytes);
}

const char* kind_name(engine::Difference::Kind kind) {
  switch (kind) {
    case engine::Difference::Kind::kOps:
      return "ops";
    case engine::Difference::Kind::kSizes:
      return "sizes";
    case engine::Difference::Kind::kEnd:
      return "end";
  }
  return "unknown";
}

py::dict to_dict(const engine::Difference& difference) {
  py::dict d("kind"_a = kind_name(difference.kind), "pattern"_a = difference.pattern,
             "position"_a = difference.position, "op"_a = difference.op,
             "expected_op"_a = difference.expected_op, "parameter"_a = difference.parameter,
             "location"_a = difference.location, "iterations"_a = difference.iteration_count);
  if (difference.kind == engine::Difference::Kind::kSizes)
    update(d, py::dict("expected_bytes"_a = difference.expected_bytes,
                       "smallest_bytes"_a = difference.smallest_bytes,
                       "largest_bytes"_a = difference.largest_bytes));
  return d;
}

py::dict to_dict(const engine::PlanningCounters& c) {
  return py::dict("ops"_a = c.ops, "planned_ops"_a = c.planned_ops, "plans_made"_a = c.plans_made,
                  "planning_ns"_a = c.planning_ns, "is_planning"_a = c.is_planning);
}

py::dict to_dict(const Rates& rates) {
  return py::dict("read_bytes_per_second"_a = rates.read_bytes_per_second,
                  "write_bytes_per_second"_a = rates.write_bytes_per_second);
}

py::dict to_dict(const runtime::DriveShare& share) {
  return py::dict("name"_a = share.drive.name, "directory"_a = share.directory.string(),
                  "ranks"_a = share.rank_count, "capacity_bytes"_a = share.drive.capacity_bytes,
                  "rated_bytes_written"_a = share.drive.rated_bytes_written,
                  "read_bytes_per_second"_a = share.drive.rates.read_bytes_per_second,
                  "write_bytes_per_second"_a = share.drive.rates.write_bytes_per_second);
}

// Returns a list with the dict of each value.
template <typename Values>
py::list to_dicts(const Values& values) {
  py::list list;
  for (const auto& value : values) list.append(to_dict(value));
  return list;
}

// Returns the counters of a tier under names that begin with `tier`, and those of its drives if it
// has any.
py::dict to_dict(const storage::TierCounters& c, const std::string& tier) {
  py::dict d;
  d[py::str(tier + "_bytes_read")] = c.bytes_read;
  d[py::str(tier + "_bytes_written")] = c.bytes_written;
  d[py::str(tier + "_reserved_peak_bytes")] = c.reserved_peak_bytes;
  if (c.segments.registered_count > 0 || c.segments.refused_count > 0)
    update(d, py::dict("gpu_direct_segments"_a = c.segments.registered_count,
                       "gpu_direct_registered_bytes"_a = c.segments.registered_bytes,
                       "gpu_direct_refused_segments"_a = c.segments.refused_count));
  if (!c.drives.empty()) d[py::str(tier + "_drives")] = to_dicts(c.drives);
  return d;
}

// Returns the counters that need no walk over all tensors, for who asks often: Python's lock is
// given up once.
py::dict brief_counters(Session& session) {
  engine::Runtime& runtime = session.runtime();
  const auto [memory, engine, planning, ssd, host, is_following] = without_gil([&] {
    return std::tuple(runtime.memory_usage(), runtime.counters(), runtime.planning_counters(),
                      session.run().tier_counters(plan::Tier::kSsd),
                      session.run().tier_counters(plan::Tier::kHost), runtime.is_following_plan());
  });
  py::dict d = to_dict(memory);
  update(d, to_dict(engine));
  update(d, to_dict(planning));
  update(d, to_dict(ssd, "ssd"));
  update(d, to_dict(host, "host"));
  d["is_following_plan"] = is_following;
  return d;
}

py::dict counters(Session& session) {
  engine::Runtime& runtime = session.runtime();
  py::dict d = brief_counters(session);
  d["bytes_away"] = without_gil([&] { return runtime.offloaded_bytes(); });
  d["unmovable_bytes"] = without_gil([&] { return runtime.unmovable_bytes(); });
  d["unanswered_bytes"] = without_gil([&] { return runtime.unanswered_bytes(); });
  d["held_for_good_bytes"] = without_gil([&] { return runtime.permanently_pinned_bytes(); });
  d["kept_in_place_bytes"] = without_gil([&] { return runtime.outside_bytes(); });
  d["collective_bytes"] = without_gil([&] { return collective_bytes(); });
  d["deviations"] = without_gil([&] { return runtime.deviation_count(); });
  return d;
}

py::list memory_timeline(Session& session) {
  py::list list;
  const auto samples = without_gil([&] { return session.runtime().memory_timeline(); });
  for (const engine::MemorySample& sample : samples)
    list.append(py::make_tuple(sample.time_ns, sample.device_bytes));
  return list;
}

py::object prediction(Session& session) {
  const auto prediction = without_gil([&] { return session.run().prediction(); });
  if (!prediction) return py::none();
  return py::dict("ideal_ns"_a = prediction->ideal_ns, "step_ns"_a = prediction->step_ns,
                  "natural_peak_bytes"_a = prediction->natural_peak_bytes,
                  "device_budget_bytes"_a = prediction->limits.device_budget_bytes,
                  "write_budget_bytes"_a = prediction->limits.write_budget_bytes);
}

// Returns the trace. Raises while there is none, in which case there is no `wanted` either.
auto trace_for(const char* wanted, Session& session) {
  auto trace = without_gil([&] { return session.runtime().trace(); });
  if (!trace)
    raise_unless_ok(Status(ErrorCode::kInvalidArgument,
                           fmt::format("there is no {} yet: no iteration of the training loop has "
                                       "repeated. Let it run a few more",
                                       wanted)));
  return *std::move(trace);
}

void save_trace(Session& session, const std::filesystem::path& path) {
  const auto trace = trace_for("trace", session);
  raise_unless_ok(without_gil([&] { return write_trace(with_repeatable_ids(trace), path); }));
}

void save_plan(Session& session, const std::filesystem::path& path) {
  const auto trace = trace_for("plan", session);
  const auto plan = without_gil([&] { return session.runtime().current_plan(); });
  raise_unless_ok(without_gil([&] { return session.runtime().planning_status(); }));
  if (!plan)
    raise_unless_ok(Status(ErrorCode::kInvalidArgument,
                           "there is no plan: all migrations are on demand. Expected the "
                           "policy \"planned\""));
  raise_unless_ok(without_gil([&] { return write_plan(*plan, with_repeatable_ids(trace), path); }));
}

void save_hardware(Session& session, const std::filesystem::path& path) {
  raise_unless_ok(
      without_gil([&] { return hardware::write_hardware(session.run().hardware(), path); }));
}

trace::TensorKind kind_of(const std::string& name) {
  for (const trace::TensorKind kind :
       {trace::TensorKind::kParameter, trace::TensorKind::kGradient,
        trace::TensorKind::kOptimizerState, trace::TensorKind::kActivation,
        trace::TensorKind::kInput, trace::TensorKind::kWorkspace})
    if (to_string(kind) == name) return kind;
  return trace::TensorKind::kOther;
}

void end_coalescing_of_python(c10d::Work* work) {
  const py::gil_scoped_release released;
  end_coalescing(work == nullptr ? c10::intrusive_ptr<c10d::Work>()
                                 : c10::intrusive_ptr<c10d::Work>::reclaim_copy(work));
}

void describe(const at::Tensor& tensor, const std::string& kind, const std::string& name) {
  c10::StorageImpl* storage = storage_of(tensor);
  if (TensorHandle* handle = storage == nullptr ? nullptr : handle_of(*storage))
    without_gil([&] { handle->runtime->describe(handle->tensor, kind_of(kind), name); });
}

planner::Recompute recompute_of(const std::string& name) {
  if (name == "off") return planner::Recompute::kOff;
  if (name == "cheap") return planner::Recompute::kCheap;
  if (name == "all") return planner::Recompute::kAll;
  throw py::value_error(fmt::format("recompute is \"{}\": expected off, cheap or all", name));
}

// Returns the options named in `given`. None leaves an option at its default. Raises TypeError for
// an unknown name.
SessionOptions options_from(const py::kwargs& given) {
  SessionOptions options;
  std::vector<std::string> known;
  const auto read = [&](const char* name, auto& field) {
    known.emplace_back(name);
    if (given.contains(name) && !given[name].is_none())
      field = given[name].cast<std::decay_t<decltype(field)>>();
  };
  read("device", options.device);
  read("device_budget_bytes", options.run.device_budget_bytes);
  read("ssd_directories", options.run.ssd_directories);
  read("rank_directories", options.run.rank_directories);
  read("cache_directory", options.run.cache_directory);
  read("ssd_capacity_bytes", options.run.ssd_capacity_bytes);
  read("host_limit_bytes", options.run.host_limit_bytes);
  read("write_budget_bytes", options.run.write_budget_bytes);
  read("write_budget_period_seconds", options.run.write_budget_period_seconds);
  read("plan_path", options.run.plan_path);
  read("is_planned", options.run.is_planned);
  read("plans_in_background", options.run.plans_in_background);
  read("checksum", options.run.checksum);
  read("io_timeout_ns", options.run.io_timeout_ns);
  read("evict_after_every_op", options.run.evict_after_every_op);
  read("discard_after_every_op", options.run.discard_after_every_op);
  std::string recompute = "off";
  read("recompute", recompute);
  options.run.recompute = recompute_of(recompute);
  read("verify_replays", options.run.verify_replays);
  read("timeline_steps", options.run.timeline_steps);
  read("smallest_tensor_bytes", options.run.smallest_tensor_bytes);
  read("allow_ram_directory", options.run.allow_ram_directory);
  read("system_root", options.system_root);
  read("progress", options.run.progress);
  for (const auto& [name, value] : given)
    if (std::find(known.begin(), known.end(), name.cast<std::string>()) == known.end())
      throw py::type_error(fmt::format("Session has no option \"{}\": expected one of {}",
                                       name.cast<std::string>(), fmt::join(known, ", ")));
  return options;
}

}  // namespace
}  // namespace teraio::pytorch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace teraio;
  using namespace teraio::pytorch;
  using no_gil = py::call_guard<py::gil_scoped_release>;

  log_to_stderr();  // stdout belongs to the program
  module.def("set_verbose", &set_verbose, py::arg("is_verbose"));
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (python_error& raised) {
      raised.restore();
    }
  });

  py::class_<Session>(module, "Session")
      .def(py::init([](const py::kwargs& kwargs) {
        SessionOptions options = options_from(kwargs);
        auto session = without_gil([&] { return Session::open(std::move(options)); });
        raise_unless_done(session.status());
        return std::move(*session);
      }))
      .def("find_aliases", &aliases)
      .def("start", [](Session& session) { raise_unless_ok(session.start()); })
      .def("begin_adoption", &Session::begin_adoption)
      .def("stop",
           [](Session& session) { raise_unless_done(without_gil([&] { return session.stop(); })); })
      .def("discard", &Session::discard, no_gil())
      .def("is_running", &Session::is_running)
      .def("begin_step", &Session::begin_step, no_gil())
      .def(
          "begin_own_work", [](Session& session) { return session.runtime().begin_own_work(); },
          no_gil())
      .def(
          "end_own_work",
          [](Session& session, int64_t start_ns) { session.runtime().end_own_work(start_ns); },
          no_gil())
      .def("end_step", &Session::end_step, no_gil())
      .def("counters", &counters)
      .def("brief_counters", &brief_counters)
      .def("iterations",
           [](Session& session, size_t first) {
             return to_dicts(without_gil([&] { return session.runtime().iterations(first); }));
           })
      .def("patterns",
           [](Session& session) {
             return to_dicts(without_gil([&] { return session.runtime().patterns(); }));
           })
      .def("differences",
           [](Session& session) {
             return to_dicts(without_gil([&] { return session.runtime().differences(); }));
           })
      .def("memory_timeline", &memory_timeline)
      .def("budget_bytes",
           [](Session& session) { return session.run().options().device_budget_bytes; })
      .def(
          "held_for_good_bytes",
          [](Session& session) { return session.runtime().permanently_pinned_bytes(); }, no_gil())
      .def("prediction", &prediction)
      .def("drive_shares", [](Session& session) { return to_dicts(session.run().drive_shares()); })
      .def("device_link",
           [](Session& session) -> py::object {
             const auto link = without_gil([&] { return session.run().device_link(); });
             return link ? py::object(to_dict(*link)) : py::none();
           })
      .def(
          "bound_ns", [](Session& session) { return session.run().bound_ns(); }, no_gil())
      .def("save_timeline",
           [](Session& session, const std::filesystem::path& path, const std::string& name) {
             return value_or_raise(
                 without_gil([&] { return session.run().save_timeline(path, name); }));
           })
      .def("save_trace", &save_trace)
      .def("save_plan", &save_plan)
      .def("save_hardware", &save_hardware);

  py::class_<Pin>(module, "Pin")
      .def(py::init([](const py::object& tensor, bool adopts) {
             return std::make_unique<Pin>(storage_of(tensor), adopts);
           }),
           "tensor"_a, "adopts"_a = false)
      .def("release", &Pin::release);

  py::class_<OpaqueOp>(module, "OpaqueOp")
      .def(py::init(&begin_opaque_op), no_gil())
      .def(
          "end", [](OpaqueOp& op, const std::vector<at::Tensor>& results) { op.end(results); },
          no_gil());

  py::class_<CallbackOps>(module, "CallbackOps")
      .def(py::init<>())
      .def("end", &CallbackOps::end, no_gil());

  bind_dry_session(module);
  bind_ddp(module);
  bind_generated_code(module);
  bind_living_objects(module);

  module.def("pin_address", &pin_address,
             "Restores a tensor and pins it permanently, because code outside knows its address. "
             "Returns False if no session manages it.");
  module.def("pin_until_op_ends", py::overload_cast<const py::object&>(&pin_until_op_ends),
             "Restores a tensor and pins it until the op ends that this thread runs, because the "
             "op's kernel knows its address. Returns False if it runs none, or no session manages "
             "the tensor.");
  module.def(
      "keep_in_place", [](const py::object& storage) { return keep_in_place(storage_of(storage)); },
      "Keeps a storage of before the session where it is. Returns its bytes, or 0 if the session "
      "would not move it or counts it already.");
  module.def(
      "note_captures", [](bool is_begin) { captures_outside_of_sessions += is_begin ? 1 : -1; },
      "Begins or ends a capture: what observed ops use outside of sessions is noted.");
  module.def("begin_coalescing", &begin_coalescing,
             "This thread's collectives start only at the end of a group.");
  module.def("end_coalescing", &end_coalescing_of_python,
             "Ends the group, of which the Work is given, or None.");
  module.def("fail_coalescing", &fail_coalescing, no_gil(), "Ends a group that has failed.");
  module.def("describe", &describe, "Sets the kind and the name of a tensor for the trace.");
  module.def("observe_this_thread", &observe_this_thread);
  module.def("observe_python_threads", &observe_python_threads);
  module.def("threads_in_older_ops", &threads_in_older_ops);
  module.def("forget_python_threads", &forget_python_threads);
  module.def("is_this_thread_observed", &is_this_thread_observed);
  module.def("observer_dispatch_key", &observer_dispatch_key);
  module.def("default_budget_bytes", [](const std::string& device) {
    return value_or_raise(value_or_raise(find_backend(device))->default_budget_bytes());
  });
  module.def(
      "available_memory_bytes", [] { return device::available_memory_bytes("/"); },
      "The host memory that this process can still take, within its control groups.");
  module.def("device_memory_bytes", [](const std::string& device) {
    return value_or_raise(value_or_raise(find_backend(device))->memory_bytes());
  });
}
