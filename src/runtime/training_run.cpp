#include "runtime/training_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/json_file.h"
#include "base/units.h"
#include "engine/timeline.h"
#include "engine/timeline_file.h"
#include "planner/bounds.h"
#include "planner/replay_bounds.h"
#include "runtime/run_limits.h"
#include "runtime/run_tiers.h"

namespace teraio::runtime {
namespace {

// What a run learns takes 2 % of the budget, or what PatternTrackerOptions has if that is more.
// Origins of ops take so much of it.
constexpr int64_t kOriginsBytesMax = 16 * kMiB;

}  // namespace

// What tensors need after the run has ended. The runtime's shared_ptrs own it jointly.
struct TrainingRun::Machine {
  std::unique_ptr<Framework> framework;
  SteadyClock clock;
  std::unique_ptr<device::Device> device;
  std::array<std::unique_ptr<storage::TierStore>, engine::kTierCount> stores;  // by plan::Tier
  std::unique_ptr<engine::Timeline> timeline;  // null: the options want none
  std::unique_ptr<Runtime> runtime;            // last member, so destroyed first
};

TrainingRun::TrainingRun(RunOptions options, std::unique_ptr<Framework> framework)
    : options_(std::move(options)), planner_(options_), machine_(std::make_shared<Machine>()) {
  machine_->framework = std::move(framework);
}

TrainingRun::~TrainingRun() = default;

Result<std::unique_ptr<TrainingRun>> TrainingRun::open(RunOptions options,
                                                       std::unique_ptr<Framework> framework) {
  std::unique_ptr<TrainingRun> run(new TrainingRun(std::move(options), std::move(framework)));
  TERAIO_RETURN_IF_ERROR(run->planner_.open_given_plan());
  TERAIO_RETURN_IF_ERROR(run->open_device());
  TERAIO_RETURN_IF_ERROR(run->open_tiers());
  run->create_runtime();
  return run;
}

Status TrainingRun::open_device() {
  Framework& framework = *machine_->framework;
  if (options_.device_budget_bytes == 0) {
    const Result<int64_t> budget_bytes = framework.default_budget_bytes();
    if (!budget_bytes.ok()) return budget_bytes.status();
    options_.device_budget_bytes = *budget_bytes;
  }
  Result<std::unique_ptr<device::Device>> device =
      framework.make_device(options_.device_budget_bytes);
  if (!device.ok()) return device.status();
  machine_->device = std::move(*device);
  return {};
}

Status TrainingRun::open_tiers() {
  Framework& framework = *machine_->framework;
  Result<RunTiers> opened = open_run_tiers(options_, *machine_->device, machine_->clock,
                                           [&] { return framework.is_interrupted(); });
  if (!opened.ok()) return opened.status();
  machine_->stores[static_cast<size_t>(plan::Tier::kSsd)] = std::move(opened->tiers.ssd);
  machine_->stores[static_cast<size_t>(plan::Tier::kHost)] = std::move(opened->tiers.host);
  hardware_ = std::move(opened->hardware);
  drive_shares_ = std::move(opened->drive_shares);
  drive_rate_monitor_.emplace(hardware_);
  return {};
}

void TrainingRun::create_runtime() {
  if (options_.timeline_steps) {
    const auto& [begin, end] = *options_.timeline_steps;
    machine_->timeline =
        std::make_unique<engine::Timeline>(engine::TimelineSteps{begin, end}, machine_->clock);
  }
  machine_->runtime = std::make_unique<Runtime>(runtime_options());
  runtime_ = std::shared_ptr<Runtime>(machine_, machine_->runtime.get());
}

engine::EngineOptions TrainingRun::engine_options() {
  engine::EngineOptions engine;
  engine.device = machine_->device.get();
  engine.stores = {machine_->stores[0].get(), machine_->stores[1].get()};
  engine.swap = &machine_->framework->swap();
  engine.clock = &machine_->clock;
  engine.interrupt = &machine_->framework->wait_interrupt();
  engine.timeline = machine_->timeline.get();
  engine.smallest_tensor_bytes = options_.smallest_tensor_bytes;
  engine.verify_replays = options_.verify_replays;
  engine.poison_released_memory = options_.evict_after_every_op || options_.discard_after_every_op;
  return engine;
}

RuntimeOptions TrainingRun::runtime_options() {
  Framework* framework = machine_->framework.get();
  RuntimeOptions options;
  options.engine = engine_options();
  if (may_discard(options_)) options.replayer = &framework->replayer();
  options.wait_for_lock = [framework](const auto& wait) {
    return framework->wait_without_other_lock(wait);
  };
  options.evict_after_every_op = options_.evict_after_every_op;
  options.discard_after_every_op = options_.discard_after_every_op;
  options.op_timer = machine_->device->op_timer();
  // Without `this`: tensors that outlive the run may lack memory, too.
  const int64_t smallest_bytes = options_.smallest_tensor_bytes;
  options.least_budget_bytes = [smallest_bytes](const iteration::Profile& profile) {
    return runtime::least_budget_bytes(profile, smallest_bytes);
  };
  options.library_bytes_max =
      std::max(options.library_bytes_max, options_.device_budget_bytes / 50 - kOriginsBytesMax);
  if (!options_.is_planned) return options;
  options.make_plan = [this](const iteration::Profile& profile) { return make_plan(profile); };
  if (searches_for_plans(options_, std::thread::hardware_concurrency()))
    options.improve_plan = [this](const auto& schedule, const auto& stop) {
      return improve_plan(schedule, stop);
    };
  options.predicted_step_ns = [this](const std::string& trace_name) {
    const std::optional<Prediction> prediction = planner_.prediction(trace_name);
    return prediction ? prediction->step_ns : 0;
  };
  options.note_wrong_prediction = [this] { note_wrong_prediction(); };
  options.plans_in_background = options_.plans_in_background;
  options.wait_for_unpin = [framework] { return framework->wait_for_unpin(); };
  options.machine_change = [this] { return machine_change(); };
  return options;
}

Result<plan::Plan> TrainingRun::make_plan(const iteration::Profile& profile) {
  return planner_.make_plan(profile, hardware(), machine_->device->spare_bytes());
}

Result<learn::FoundPlan> TrainingRun::improve_plan(const iteration::Schedule& schedule,
                                                   const std::atomic<bool>& stop) {
  return planner_.improve_plan(schedule, hardware(), machine_->device->spare_bytes(), stop);
}

std::optional<std::string> TrainingRun::machine_change() {
  const auto& ssd = machine_->stores[static_cast<size_t>(plan::Tier::kSsd)];
  if (ssd == nullptr) return std::nullopt;
  std::optional<std::string> change = drive_rate_monitor_->note_iteration(ssd->counters().drives);
  const std::lock_guard lock(mutex_);
  if (change) hardware_ = drive_rate_monitor_->hardware();
  return change;
}

void TrainingRun::note_wrong_prediction() {
  const storage::TierCounters ssd = tier_counters(plan::Tier::kSsd);
  const std::lock_guard lock(mutex_);
  hardware_ = with_reached_rates(std::move(hardware_), ssd);
  drive_rate_monitor_.emplace(hardware_);
}

Status TrainingRun::prepare_stop() {
  TERAIO_RETURN_IF_ERROR(check_room_to_restore());
  return replay_discarded();
}

// Without room the system would end the process, and all bytes would be lost.
Status TrainingRun::check_room_to_restore() const {
  const RunFigures figures = runtime_->figures();
  const int64_t kept_bytes = figures.memory.reserved_bytes - figures.memory.allocated_bytes;
  const int64_t absent_bytes = figures.offloaded_bytes + figures.discarded_bytes;
  const int64_t needed_bytes = absent_bytes - std::max<int64_t>(0, kept_bytes);
  const int64_t available_bytes = machine_->framework->available_bytes();
  if (needed_bytes <= available_bytes) return {};
  return Status(
      ErrorCode::kOutOfMemory,
      fmt::format("cannot end the session: restoring all tensors needs {} bytes ({}), and {} bytes "
                  "({}) of memory are available. The session continues. Drop tensors or free "
                  "memory, and end it again",
                  needed_bytes, format_size(needed_bytes), available_bytes,
                  format_size(available_bytes)));
}

// Replays need the hooks, which give their memory, and find no tensor to evict for it in vain.
Status TrainingRun::replay_discarded() {
  if (!may_discard(options_)) return {};
  set_budget(device::kNoBudget);
  Status status = runtime_->replay_all();
  if (!status.ok()) set_budget(options_.device_budget_bytes);  // the run goes on
  return status;
}

void TrainingRun::set_budget(int64_t size_bytes) {
  runtime_->while_nothing_moves([&] { machine_->device->set_budget_bytes(size_bytes); });
}

Status TrainingRun::stop() {
  keep_learned_rates(options_, drive_shares_, tier_counters(plan::Tier::kSsd));
  set_budget(device::kNoBudget);
  return runtime_->stop();
}

void TrainingRun::discard() {
  keep_learned_rates(options_, drive_shares_, tier_counters(plan::Tier::kSsd));
  runtime_->discard();
  set_budget(device::kNoBudget);
}

void TrainingRun::close() {
  const RunFigures figures = runtime_->figures();
  if (!figures.uses_stores) return close_stores();
  // Some bytes are only there, or a drive hangs: then it may use the machine for ever.
  if (figures.has_transfers) leak();
}

void TrainingRun::leak() { new std::shared_ptr<Machine>(machine_); }

// Tensors keep the machine alive as long as they live. The room on the drives is given back now.
void TrainingRun::close_stores() {
  const std::lock_guard lock(mutex_);
  for (size_t tier = 0; tier < engine::kTierCount; ++tier) {
    auto& store = machine_->stores[tier];
    if (store == nullptr) continue;
    last_tier_counters_[tier] = store->counters();
    store.reset();
  }
}

storage::TierCounters TrainingRun::tier_counters(plan::Tier tier) const {
  const std::lock_guard lock(mutex_);
  const auto& store = machine_->stores[static_cast<size_t>(tier)];
  return store == nullptr ? last_tier_counters_[static_cast<size_t>(tier)] : store->counters();
}

std::optional<Prediction> TrainingRun::prediction() const {
  return planner_.prediction(runtime_->figures().trace_name);
}

int64_t TrainingRun::bound_ns() const {
  const std::optional<Prediction> known = prediction();
  const std::optional<trace::Trace> trace = runtime_->knowledge().trace;
  if (!known || !trace) return 0;
  const planner::StepBounds bounds =
      may_discard(options_)
          ? planner::lower_bounds_with_replays(*trace, known->hardware, known->limits)
          : planner::lower_bounds(*trace, known->hardware, known->limits);
  return bounds.best_ns();
}

hardware::Hardware TrainingRun::hardware() const {
  const std::lock_guard lock(mutex_);
  return hardware_;
}

std::optional<Rates> TrainingRun::device_link() const {
  if (machine_->device->is_host_addressable()) return std::nullopt;
  return hardware().device_link;
}

Result<std::vector<int64_t>> TrainingRun::save_timeline(const std::filesystem::path& path,
                                                        const std::string& process_name) const {
  if (machine_->timeline == nullptr)
    return Status(ErrorCode::kInvalidArgument,
                  "the session records no timeline: expected the option timeline_steps");
  engine::TimelineRecord record;
  runtime_->while_nothing_moves([&] { record = machine_->timeline->record(); });
  if (record.ops.empty())
    return Status(
        ErrorCode::kInvalidArgument,
        "no op has run in the steps of the timeline: expected steps that the run reaches");
  engine::TimelineProcess process = {getpid(), process_name, {}};
  for (const storage::DriveCounters& drive : tier_counters(plan::Tier::kSsd).drives)
    process.ssd_drives.push_back(drive.name);
  TERAIO_RETURN_IF_ERROR(write_text_file(path, engine::timeline_text(record, process)));
  std::vector<int64_t> steps;
  for (const engine::StepSpan& step : record.steps) steps.push_back(step.index);
  return steps;
}

}  // namespace teraio::runtime
