#include <fmt/ranges.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/DynamicTypes.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/session_dicts.h"
#include "observe/collective.h"
#include "session/session.h"
#include "trace/trace_file.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

py::list aliases(const Session& session) {
  py::list storages;
  for (const auto& storage : session.find_aliases())
    storages.append(py::reinterpret_steal<py::object>(torch::createPyObject(storage)));
  return storages;
}

py::dict dict_of(Session& session, const runtime::RunFigures& figures) {
  py::dict d = to_dict(figures.memory);
  update(d, to_dict(figures.counters));
  update(d, to_dict(figures.planning));
  for (const plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost})
    update(d, to_dict(without_gil([&] { return session.run().tier_counters(tier); }),
                      std::string(to_string(tier))));
  d["natural_peak_bytes"] = figures.natural_peak_bytes;
  d["iterations"] = figures.iteration_count;
  d["is_following_plan"] = figures.is_following_plan;
  return d;
}

// Returns the counters that need no walk over all tensors, for who asks often.
py::dict brief_counters(Session& session) {
  return dict_of(session, without_gil([&] { return session.runtime().figures(); }));
}

py::dict counters(Session& session) {
  const auto figures = without_gil([&] { return session.runtime().figures(true); });
  py::dict d = dict_of(session, figures);
  d["bytes_away"] = figures.offloaded_bytes;
  d["unmovable_bytes"] = figures.unmovable_bytes;
  d["unanswered_bytes"] = figures.unanswered_bytes;
  d["held_for_good_bytes"] = figures.permanently_pinned_bytes;
  d["kept_in_place_bytes"] = figures.outside_bytes;
  d["collective_bytes"] = without_gil([&] { return collective_bytes(); });
  d["deviations"] = figures.deviation_count;
  return d;
}

py::list memory_timeline(Session& session) {
  py::list list;
  const auto samples = without_gil([&] { return session.runtime().knowledge().memory; });
  for (const engine::MemorySample& sample : samples)
    list.append(py::make_tuple(sample.time_ns, sample.device_bytes));
  return list;
}

py::object prediction(Session& session) {
  const auto prediction = without_gil([&] { return session.run().prediction(); });
  if (!prediction) return py::none();
  py::dict d = to_dict(*prediction);
  if (const auto plan = without_gil([&] { return session.runtime().figures().plan; }))
    update(d, to_dict(*plan));
  return std::move(d);
}

// Returns the trace. Raises while there is none, in which case there is no `wanted` either.
auto trace_for(const char* wanted, Session& session) {
  auto trace = without_gil([&] { return session.runtime().knowledge().trace; });
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
  const auto known = without_gil([&] { return session.runtime().knowledge(); });
  raise_unless_ok(known.planning_status);
  if (!known.plan)
    raise_unless_ok(Status(ErrorCode::kInvalidArgument,
                           "there is no plan: all migrations are on demand. Expected the "
                           "policy \"planned\""));
  raise_unless_ok(
      without_gil([&] { return write_plan(*known.plan, with_repeatable_ids(trace), path); }));
}

void save_hardware(Session& session, const std::filesystem::path& path) {
  raise_unless_ok(
      without_gil([&] { return hardware::write_hardware(session.run().hardware(), path); }));
}

planner::Recompute recompute_of(const std::string& name) {
  if (name == "off") return planner::Recompute::kOff;
  if (name == "cheap") return planner::Recompute::kCheap;
  if (name == "all") return planner::Recompute::kAll;
  throw py::value_error(fmt::format("recompute is \"{}\": expected off, cheap or all", name));
}

runtime::RunOptions::Effort effort_of(const std::string& name) {
  if (name == "fast") return runtime::RunOptions::Effort::kFast;
  if (name == "auto") return runtime::RunOptions::Effort::kAuto;
  if (name == "best") return runtime::RunOptions::Effort::kBest;
  throw py::value_error(fmt::format("effort is \"{}\": expected fast, auto or best", name));
}

// Reads options by their names. None leaves an option at its default.
class OptionReader {
 public:
  // `owner` is what has the options, for messages.
  OptionReader(const char* owner, const py::kwargs& given) : owner_(owner), given_(given) {}

  template <typename Field>
  void read(const char* name, Field& field) {
    known_.emplace_back(name);
    if (given_.contains(name) && !given_[name].is_none()) field = given_[name].cast<Field>();
  }
  // Raises TypeError for an option that was not read.
  void refuse_unknown() const {
    for (const auto& [name, value] : given_)
      if (std::find(known_.begin(), known_.end(), name.cast<std::string>()) == known_.end())
        throw py::type_error(fmt::format("{} has no option \"{}\": expected one of {}", owner_,
                                         name.cast<std::string>(), fmt::join(known_, ", ")));
  }

 private:
  const char* owner_;
  const py::kwargs& given_;
  std::vector<std::string> known_;
};

// What only tests choose for a session.
struct OptionsForTests {
  bool evict_after_every_op = false;
  bool discard_after_every_op = false;
  std::filesystem::path system_root = SessionOptions().system_root;
};

// Those of the next session. Needs the GIL.
OptionsForTests& options_for_tests() {
  static OptionsForTests options;
  return options;
}

void set_options_for_tests(const py::kwargs& given) {
  OptionsForTests options;
  OptionReader reader("set_options_for_tests", given);
  reader.read("evict_after_every_op", options.evict_after_every_op);
  reader.read("discard_after_every_op", options.discard_after_every_op);
  reader.read("system_root", options.system_root);
  reader.refuse_unknown();
  options_for_tests() = options;
}

// Returns the options of a session: those that are given, and those of set_options_for_tests().
SessionOptions options_from(const py::kwargs& given) {
  SessionOptions options;
  OptionReader reader("Session", given);
  reader.read("device", options.device);
  reader.read("device_budget_bytes", options.run.device_budget_bytes);
  reader.read("ssd_directories", options.run.ssd_directories);
  reader.read("rank_directories", options.run.rank_directories);
  reader.read("cache_directory", options.run.cache_directory);
  reader.read("ssd_capacity_bytes", options.run.ssd_capacity_bytes);
  reader.read("host_limit_bytes", options.run.host_limit_bytes);
  reader.read("write_budget_bytes", options.run.write_budget_bytes);
  reader.read("write_budget_period_seconds", options.run.write_budget_period_seconds);
  reader.read("plan_path", options.run.plan_path);
  reader.read("is_planned", options.run.is_planned);
  reader.read("plans_in_background", options.run.plans_in_background);
  reader.read("checksum", options.run.checksum);
  reader.read("checks_schemas", options.checks_schemas);
  reader.read("io_timeout_ns", options.run.io_timeout_ns);
  std::string recompute;
  reader.read("recompute", recompute);
  if (!recompute.empty()) options.run.recompute = recompute_of(recompute);
  std::string effort;
  reader.read("effort", effort);
  if (!effort.empty()) options.run.effort = effort_of(effort);
  reader.read("verify_replays", options.run.verify_replays);
  reader.read("timeline_steps", options.run.timeline_steps);
  reader.read("progress", options.run.progress);
  reader.refuse_unknown();
  const OptionsForTests tests = std::exchange(options_for_tests(), OptionsForTests());
  options.run.evict_after_every_op = tests.evict_after_every_op;
  options.run.discard_after_every_op = tests.discard_after_every_op;
  options.system_root = tests.system_root;
  return options;
}

}  // namespace

void bind_session(py::module_& module) {
  using no_gil = py::call_guard<py::gil_scoped_release>;
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
      .def("end_step", &Session::end_step, py::arg("optimizer") = 0, no_gil())
      .def("counters", &counters)
      .def("brief_counters", &brief_counters)
      .def("iterations",
           [](Session& session, size_t first) {
             return to_dicts(without_gil([&] { return session.runtime().iterations(first); }));
           })
      .def("patterns",
           [](Session& session) {
             return to_dicts(without_gil([&] { return session.runtime().knowledge().patterns; }));
           })
      .def(
          "differences",
          [](Session& session) {
            return to_dicts(without_gil([&] { return session.runtime().knowledge().differences; }));
          })
      .def("memory_timeline", &memory_timeline)
      .def("budget_bytes",
           [](Session& session) { return session.run().options().device_budget_bytes; })
      .def(
          "held_for_good_bytes",
          [](Session& session) { return session.runtime().figures().permanently_pinned_bytes; },
          no_gil())
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

  module.def("set_options_for_tests", &set_options_for_tests,
             "For tests alone: options of the next session that is opened.");
}

}  // namespace teraio::pytorch
