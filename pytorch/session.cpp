#include "session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "adoption.h"
#include "base/json_file.h"
#include "base/log.h"
#include "base/units.h"
#include "captured_storages.h"
#include "collective.h"
#include "drives/drive_endurance.h"
#include "engine/timeline_file.h"
#include "forked_child.h"
#include "interrupts.h"
#include "op_observer.h"
#include "planner/bounds.h"
#include "planner/planner.h"
#include "planner/replay_bounds.h"
#include "probe/learned_rates.h"
#include "probe/link_rate.h"
#include "probe/probe_cache.h"
#include "probe/rank_share.h"
#include "python_lock.h"
#include "simulate/simulator.h"
#include "storage/tiers.h"
#include "storage_swap.h"

namespace teraio::pytorch {
namespace {

constexpr size_t kPredictionsMax = 64;
constexpr int64_t kPiecesPerBudget = 12;
// The share of the budget that plans leave free, for rounding to pages and for memory that the
// profile does not contain.
constexpr double kPlanMargin = 0.01;
// The rate of one thread that copies host memory. Only its ratio to the drives' rates matters.
constexpr int64_t kHostCopyBytesPerSecond = 5'000'000'000;
constexpr int64_t kUnlimitedLinkBytesPerSecond = 1'000'000'000'000;

// Returns room for a job of eight times the budget, but at most half of the free space, so that
// other programs and sessions find room on the drive.
int64_t default_ssd_capacity(const SessionOptions& options, const hardware::Hardware& hardware) {
  const int64_t wanted_bytes = std::max<int64_t>(2 * kGiB, 8 * options.device_budget_bytes);
  return std::min(wanted_bytes, ssd_capacity_bytes(hardware) / 2);
}

// Returns the measurement of the drive, scaled down to the share of one rank.
Result<probe::DriveProbe> measured_share(const std::filesystem::path& directory,
                                         const SessionOptions& options, int32_t rank_count) {
  probe::ProbeOptions probe_options;
  probe_options.progress = options.progress;
  probe_options.is_interrupted = [] { return Interrupts::instance().handle_signals(); };
  Result<probe::DriveProbe> probe =
      cached_or_measured(options.cache_directory, directory, probe_options);
  if (!probe.ok()) return probe;
  return share_of(std::move(*probe), rank_count);
}

// Returns a rank's share of the rated writes of the drive behind a directory, if the model is
// known.
std::optional<int64_t> rated_bytes_written(const std::filesystem::path& directory,
                                           int32_t rank_count) {
  std::optional<int64_t> rated_bytes = drives::rated_bytes_written(directory);
  if (rated_bytes) *rated_bytes /= rank_count;
  return rated_bytes;
}

hardware::Drive to_drive(const probe::DriveProbe& probe) {
  hardware::Drive drive;
  drive.name = probe.name;
  drive.capacity_bytes = probe.capacity_bytes;
  drive.rates = probe.rates;
  drive.duplex = probe.duplex;
  return drive;
}

double compute_seconds(const trace::Trace& trace) {
  int64_t sum_ns = 0;
  for (const trace::Op& op : trace.ops) sum_ns += op.duration_ns;
  return static_cast<double>(sum_ns) / 1e9;
}

bool has_drive(const hardware::Hardware& hardware, const std::string& name) {
  return std::any_of(hardware.drives.begin(), hardware.drives.end(),
                     [&](const hardware::Drive& drive) { return drive.name == name; });
}

}  // namespace

int64_t list_op_piece_bytes(int64_t device_budget_bytes) {
  return device_budget_bytes / kPiecesPerBudget;
}

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  std::unique_ptr<Session> session(new Session(std::move(options)));
  session->machine_ = std::make_shared<Machine>();
  TERAIO_RETURN_IF_ERROR(session->open_given_plan());
  TERAIO_RETURN_IF_ERROR(session->open_device());
  TERAIO_RETURN_IF_ERROR(session->open_tiers());
  session->drive_rate_monitor_.emplace(session->hardware_);
  session->create_runtime();
  return session;
}

Status Session::open_device() {
  const Result<DeviceBackend*> backend = find_backend(options_.device);
  if (!backend.ok()) return backend.status();
  backend_ = *backend;
  if (options_.device_budget_bytes == 0) {
    const Result<int64_t> budget_bytes = backend_->default_budget_bytes();
    if (!budget_bytes.ok()) return budget_bytes.status();
    options_.device_budget_bytes = *budget_bytes;
  }
  Result<std::unique_ptr<device::Device>> device =
      backend_->make_device(options_.device_budget_bytes);
  if (!device.ok()) return device.status();
  machine_->device = std::move(*device);
  return {};
}

// Sets the rates of the link to the device. The CPU device needs no link: drives read and write its
// memory directly, and only the host tier copies.
Status Session::measure_device_link() {
  hardware_.device_link = {kUnlimitedLinkBytesPerSecond, kUnlimitedLinkBytesPerSecond};
  hardware_.host.rates = {kHostCopyBytesPerSecond, kHostCopyBytesPerSecond};
  if (machine_->device->is_host_addressable()) return {};
  const Result<Rates> rates = probe::measure_link(*machine_->device, machine_->clock);
  if (!rates.ok()) return rates.status();
  hardware_.device_link = *rates;
  hardware_.host.rates = hardware_.device_link;
  return {};
}

// The pool is large, and may be pinned in part only: its own rates count.
Status Session::measure_host_tier(const device::HostMemory& pool) {
  if (machine_->device->is_host_addressable()) return {};
  const Result<Rates> rates = probe::measure_link(*machine_->device, machine_->clock, pool);
  if (!rates.ok()) return rates.status();
  hardware_.host.rates = *rates;
  return {};
}

Status Session::open_tiers() {
  std::vector<storage::SsdDirectory> directories;
  hardware_.name = "this machine";
  hardware_.device_memory_bytes = options_.device_budget_bytes;
  TERAIO_RETURN_IF_ERROR(measure_device_link());
  for (const std::filesystem::path& path : options_.ssd_directories) {
    const Result<int32_t> rank_count = probe::ranks_on_drive(path, options_.rank_directories);
    if (!rank_count.ok()) return rank_count.status();
    Result<probe::DriveProbe> probe = measured_share(path, options_, *rank_count);
    if (!probe.ok()) return probe.status();
    // The store uses one directory per drive and logs the ones that it leaves out.
    if (!has_drive(hardware_, probe->name)) {
      hardware_.drives.push_back(to_drive(*probe));
      hardware_.drives.back().rated_bytes_written = rated_bytes_written(path, *rank_count);
      drive_shares_.push_back({path, *rank_count, hardware_.drives.back()});
    }
    hardware_.request_latency_ns =
        std::max(hardware_.request_latency_ns, probe->request_latency_ns);
    directories.push_back({path, probe->rates});
  }
  storage::TierOptions tier_options;
  tier_options.directories = std::move(directories);
  tier_options.ssd.capacity_bytes = options_.ssd_capacity_bytes > 0
                                        ? options_.ssd_capacity_bytes
                                        : default_ssd_capacity(options_, hardware_);
  tier_options.ssd.checksum = options_.checksum;
  tier_options.ssd.io_timeout_ns = options_.io_timeout_ns;
  tier_options.ssd.allow_ram_directory = options_.allow_ram_directory;
  tier_options.host_limit_bytes = options_.host_limit_bytes;
  tier_options.measure_pool = [this](const auto& pool) { return measure_host_tier(pool); };
  Result<storage::Tiers> tiers =
      storage::open_tiers(tier_options, *machine_->device, machine_->clock);
  if (!tiers.ok()) return tiers.status();
  machine_->stores[static_cast<size_t>(plan::Tier::kSsd)] = std::move(tiers->ssd);
  machine_->stores[static_cast<size_t>(plan::Tier::kHost)] = std::move(tiers->host);
  hardware_.host.capacity_bytes = tier_counters(plan::Tier::kHost).capacity_bytes;
  return {};
}

std::optional<Rates> Session::device_link() const {
  if (machine_->device->is_host_addressable()) return std::nullopt;
  return hardware().device_link;
}

bool Session::has_replays() const {
  return options_.recompute != planner::Recompute::kOff || options_.plan_path ||
         options_.discard_after_every_op;
}

void Session::create_runtime() {
  machine_->swap = std::make_unique<TorchStorageSwap>();
  engine::RuntimeOptions runtime_options;
  engine::EngineOptions& engine = runtime_options.engine;
  engine.device = machine_->device.get();
  engine.stores = {machine_->stores[0].get(), machine_->stores[1].get()};
  engine.swap = machine_->swap.get();
  engine.clock = &machine_->clock;
  engine.interrupt = &Interrupts::instance();
  engine.smallest_tensor_bytes = options_.smallest_tensor_bytes;
  engine.verify_replays = options_.verify_replays;
  engine.timeline = make_timeline();
  engine.poison_released_memory = options_.evict_after_every_op || options_.discard_after_every_op;
  if (has_replays()) runtime_options.replayer = &machine_->replayer.emplace(*backend_);
  runtime_options.wait_for_lock = wait_without_python_lock;
  runtime_options.evict_after_every_op = options_.evict_after_every_op;
  runtime_options.discard_after_every_op = options_.discard_after_every_op;
  runtime_options.op_timer = machine_->device->op_timer();
  if (options_.is_planned) {
    runtime_options.make_plan = [this](const engine::Profile& profile) {
      return make_plan(profile);
    };
    runtime_options.plans_in_background = options_.plans_in_background;
    runtime_options.wait_for_unpin = wait_for_a_collective;
    runtime_options.machine_change = [this] { return machine_change(); };
  }
  machine_->runtime = std::make_unique<engine::Runtime>(std::move(runtime_options));
  runtime_ = std::shared_ptr<engine::Runtime>(machine_, machine_->runtime.get());
}

void Session::begin_step() {
  machine_->origins.forget_nodes();
  runtime_->begin_step();
}

void Session::end_step() {
  const StorageReferenceGuard guard;
  if (active_ != nullptr) active_->steady_precision.end_step();
  runtime_->end_step();
}

engine::Timeline* Session::make_timeline() {
  if (!options_.timeline_steps) return nullptr;
  const auto& [begin, end] = *options_.timeline_steps;
  machine_->timeline =
      std::make_unique<engine::Timeline>(engine::TimelineSteps{begin, end}, machine_->clock);
  return machine_->timeline.get();
}

Result<std::vector<int64_t>> Session::save_timeline(const std::filesystem::path& path,
                                                    const std::string& process_name) const {
  if (machine_->timeline == nullptr)
    return Status(ErrorCode::kInvalidArgument,
                  "the session records no timeline: expected the option timeline_steps");
  const engine::TimelineRecord record = runtime_->timeline_record();
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

std::optional<std::string> Session::machine_change() {
  const auto& ssd = machine_->stores[static_cast<size_t>(plan::Tier::kSsd)];
  if (ssd == nullptr) return std::nullopt;
  std::optional<std::string> change = drive_rate_monitor_->note_iteration(ssd->counters().drives);
  const std::lock_guard lock(mutex_);
  if (change) hardware_ = drive_rate_monitor_->hardware();
  return change;
}

hardware::Hardware Session::hardware() const {
  const std::lock_guard lock(mutex_);
  return hardware_;
}

plan::Limits Session::limits_for(const engine::Profile& profile,
                                 const hardware::Hardware& hardware) const {
  plan::Limits limits;
  const auto margin_bytes =
      static_cast<int64_t>(static_cast<double>(options_.device_budget_bytes) * kPlanMargin);
  const int64_t most_bytes = options_.device_budget_bytes - margin_bytes - profile.untouched_bytes;
  limits.device_budget_bytes = most_bytes;
  limits.host_limit_bytes = hardware.host.capacity_bytes;
  limits.smallest_tensor_bytes = options_.smallest_tensor_bytes;
  limits.write_budget_bytes = options_.write_budget_bytes;
  if (limits.write_budget_bytes && options_.write_budget_period_seconds > 0) {
    const double iterations_per_period =
        static_cast<double>(options_.write_budget_period_seconds) / compute_seconds(profile.trace);
    *limits.write_budget_bytes = std::llround(static_cast<double>(*limits.write_budget_bytes) /
                                              std::max(iterations_per_period, 1e-9));
  }
  // What an op needs at once comes first.
  const int64_t least_bytes = planner::min_device_budget_bytes(profile.trace, limits);
  const int64_t spare_bytes = std::min(machine_->device->spare_bytes(), most_bytes - least_bytes);
  limits.device_budget_bytes = most_bytes - std::max<int64_t>(spare_bytes, 0);
  return limits;
}

// Returns a plan within the write budget. If the budget is too small for any plan, it returns a
// plan with the smallest write budget that suffices, because on-demand migration would write more.
Result<plan::Plan> Session::plan_within(const trace::Trace& trace,
                                        const hardware::Hardware& hardware,
                                        plan::Limits limits) const {
  planner::PlannerOptions options;
  options.recompute = options_.recompute;
  Result<plan::Plan> plan = planner::plan(trace, hardware, limits, options);
  if (plan.ok() || !limits.write_budget_bytes) return plan;
  const Result<int64_t> least_bytes = planner::min_write_budget_bytes(trace, hardware, limits);
  if (!least_bytes.ok() || *least_bytes <= *limits.write_budget_bytes) return plan;
  log_warning(fmt::format(
      "teraio: the write budget allows {} per iteration, and about {} is the least that this "
      "device budget needs: plans write that much. Raise the device budget to write less",
      format_size(*limits.write_budget_bytes), format_size(*least_bytes)));
  limits.write_budget_bytes = *least_bytes;
  return planner::plan(trace, hardware, limits, options);
}

Status Session::open_given_plan() {
  if (!options_.plan_path) return {};
  Result<GivenPlan> plan = GivenPlan::open(*options_.plan_path);
  if (!plan.ok()) return plan.status();
  given_plan_ = std::move(*plan);
  return {};
}

// An error would lead to on-demand migration, which writes more than any plan.
Result<plan::Plan> Session::plan_for(const trace::Trace& trace, const hardware::Hardware& hardware,
                                     const plan::Limits& limits) {
  if (!given_plan_) return plan_within(trace, hardware, limits);
  Result<std::optional<plan::Plan>> given = given_plan_->plan_for(trace, hardware, limits);
  if (!given.ok()) return given.status();
  if (*given) return std::move(**given);
  return plan_within(trace, hardware, limits);
}

Result<plan::Plan> Session::make_plan(const engine::Profile& profile) {
  const hardware::Hardware hardware = this->hardware();
  const plan::Limits limits = limits_for(profile, hardware);
  Result<plan::Plan> plan = plan_for(profile.trace, hardware, limits);
  if (!plan.ok()) return plan;
  const Prediction prediction = predict(profile, hardware, limits, *plan);
  const std::lock_guard lock(mutex_);
  std::erase_if(predictions_, [&](const auto& each) { return each.first == profile.trace.name; });
  predictions_.emplace_back(profile.trace.name, prediction);
  if (predictions_.size() > kPredictionsMax) predictions_.pop_front();
  return plan;
}

Prediction Session::predict(const engine::Profile& profile, const hardware::Hardware& hardware,
                            const plan::Limits& limits, const plan::Plan& plan) {
  Prediction prediction;
  prediction.limits = limits;
  prediction.hardware = hardware;
  plan::Limits unlimited;
  unlimited.device_budget_bytes = std::numeric_limits<int64_t>::max() / 2;
  if (const Result<simulate::Run> ideal =
          simulate::simulate(profile.trace, hardware, unlimited, plan::Plan());
      ideal.ok()) {
    prediction.ideal_ns = ideal->ideal_ns;
    prediction.natural_peak_bytes = ideal->device_peak_bytes + profile.untouched_bytes;
  }
  if (const Result<simulate::Run> run = simulate::simulate(profile.trace, hardware, limits, plan);
      run.ok())
    prediction.step_ns = run->step_ns;
  return prediction;
}

Session::~Session() {
  // In a forked child the machine is leaked: its threads exist only in the parent, and joining them
  // would never end.
  if (is_forked_child()) new std::shared_ptr<Machine>(machine_);
  if (is_running() && !stop().ok()) discard();
}

bool Session::is_running() const { return active_ != nullptr && active_session() == active_.get(); }

Status Session::start() {
  if (active_session() != nullptr)
    return Status(ErrorCode::kInvalidArgument,
                  "a TERAIO session is running in this process: leave it before starting another");
  if (active_ != nullptr)
    return Status(ErrorCode::kInvalidArgument, "this TERAIO session has ended: open a new one");
  active_ = std::make_shared<ActiveSession>();
  active_->runtime = runtime_;
  active_->backend = backend_;
  active_->has_streams = backend_->has_streams();
  active_->tried_ops = &machine_->tried_ops;
  active_->origins = &machine_->origins;
  active_->smallest_tensor_bytes = options_.smallest_tensor_bytes;
  active_->chunk_bytes = list_op_piece_bytes(options_.device_budget_bytes);
  backend_->install();
  watch_forks();
  Interrupts::instance().start();
  set_active_session(active_.get());
  for (const auto& storage : captured_storages()) keep_in_place(*active_, *storage);
  observe_this_thread(true);
  return {};
}

void Session::begin_adoption() { active_->may_adopt = true; }

Aliases Session::find_aliases() const {
  return pytorch::find_aliases([this](c10::StorageImpl& storage) {
    return can_adopt(*backend_, options_.smallest_tensor_bytes, storage);
  });
}

// Without room the system would end the process, and all bytes would be lost.
Status Session::check_room_to_restore() const {
  const device::MemoryUsage usage = runtime_->memory_usage();
  const int64_t kept_bytes = usage.reserved_bytes - usage.allocated_bytes;
  const int64_t away_bytes = runtime_->offloaded_bytes() + runtime_->discarded_bytes();
  const int64_t needed_bytes = away_bytes - std::max<int64_t>(0, kept_bytes);
  const int64_t available_bytes = backend_->available_bytes(options_.system_root);
  if (needed_bytes <= available_bytes) return {};
  return Status(
      ErrorCode::kOutOfMemory,
      fmt::format("the end of the session needs {} bytes ({}) to restore all tensors, and "
                  "{} bytes ({}) of memory are available: the session goes on; drop "
                  "tensors or free memory, and end it again",
                  needed_bytes, format_size(needed_bytes), available_bytes,
                  format_size(available_bytes)));
}

// Replays need the hooks, which give their memory, and find no tensor to evict for it in vain.
Status Session::replay_discarded() {
  if (!has_replays()) return {};
  const StorageReferenceGuard guard;
  set_budget(device::kNoBudget);
  Status status = runtime_->replay_all();
  if (!status.ok()) set_budget(options_.device_budget_bytes);  // the session goes on
  return status;
}

void Session::set_budget(int64_t size_bytes) {
  runtime_->while_nothing_moves([&] { machine_->device->set_budget_bytes(size_bytes); });
}

// The hooks come off last: an op that another thread begins meanwhile waits for its tensors.
Status Session::stop() {
  if (!is_running()) return {};
  TERAIO_RETURN_IF_ERROR(check_room_to_restore());
  TERAIO_RETURN_IF_ERROR(replay_discarded());
  keep_learned_rates();
  const StorageReferenceGuard guard;
  forget_collectives();
  set_budget(device::kNoBudget);
  const Status status = runtime_->stop();
  take_hooks_off();
  Interrupts::instance().stop();
  leave_machine();
  return status;
}

void Session::discard() {
  if (!is_running()) return;
  take_hooks_off();
  keep_learned_rates();
  const StorageReferenceGuard guard;
  forget_collectives();
  runtime_->discard();
  set_budget(device::kNoBudget);
  Interrupts::instance().stop();
  leave_machine();
}

void Session::leave_machine() {
  if (!runtime_->uses_stores()) return close_stores();
  // Some bytes are only there, or a drive hangs: then it may use the machine for ever.
  if (runtime_->has_transfers()) new std::shared_ptr<Machine>(machine_);
}

void Session::take_hooks_off() {
  observe_this_thread(false);
  set_active_session(nullptr);
  // A thread that entered an op before the end still reads it, maybe after the session object.
  retire(active_);
}

// Later sessions plan with what this one has measured. Ranks that share a drive see a part of it
// each, and checksums slow transfers down: neither tells how fast the drive is.
void Session::keep_learned_rates() const {
  if (options_.checksum) return;
  const storage::TierCounters ssd = tier_counters(plan::Tier::kSsd);
  for (const DriveShare& share : drive_shares_) {
    if (share.rank_count > 1) continue;
    const std::string name = fmt::format("{} ({})", share.drive.name, share.directory.string());
    const auto run = std::find_if(ssd.drives.begin(), ssd.drives.end(),
                                  [&](const auto& drive) { return drive.name == name; });
    const auto known = probe::load_cached_probe(options_.cache_directory, share.directory);
    if (run == ssd.drives.end() || !known) continue;
    const auto learned = probe::learned_from(*run, *known);
    if (!learned) continue;
    const Status kept = save_cached_probe(options_.cache_directory, *learned);
    if (!kept.ok())
      log_warning("teraio: the rates of a drive cannot be kept: " + kept.message() +
                  ". Only later runs are concerned: they plan with older rates" +
                  detail_lines(kept));
  }
}

// Tensors keep the Machine alive as long as they live. The room on the drives is given back now.
void Session::close_stores() {
  const std::lock_guard lock(mutex_);
  for (size_t tier = 0; tier < engine::kTierCount; ++tier) {
    auto& store = machine_->stores[tier];
    if (store == nullptr) continue;
    last_tier_counters_[tier] = store->counters();
    store.reset();
  }
}

storage::TierCounters Session::tier_counters(plan::Tier tier) const {
  const std::lock_guard lock(mutex_);
  const auto& store = machine_->stores[static_cast<size_t>(tier)];
  return store == nullptr ? last_tier_counters_[static_cast<size_t>(tier)] : store->counters();
}

int64_t Session::bound_ns() const {
  const std::optional<Prediction> known = prediction();
  const std::optional<trace::Trace> trace = runtime_->trace();
  if (!known || !trace) return 0;
  const planner::StepBounds bounds =
      has_replays() ? planner::lower_bounds_with_replays(*trace, known->hardware, known->limits)
                    : planner::lower_bounds(*trace, known->hardware, known->limits);
  return bounds.best_ns();
}

std::optional<Prediction> Session::prediction() const {
  const std::string trace_name = runtime_->trace_name();
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(predictions_.begin(), predictions_.end(),
                                  [&](const auto& each) { return each.first == trace_name; });
  if (found == predictions_.end()) return std::nullopt;
  return found->second;
}

}  // namespace teraio::pytorch
