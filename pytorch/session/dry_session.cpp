#include "session/dry_session.h"

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "device/counting_device.h"
#include "engine/replayer.h"
#include "observe/collective.h"
#include "observe/list_op_slices.h"
#include "observe/observed_thread.h"
#include "observe/op_origins.h"
#include "replay/steady_precision.h"
#include "storages/cpu_backend.h"
#include "storages/fake_storage.h"
#include "storages/forked_child.h"
#include "storages/storage_swap.h"

namespace teraio::pytorch {

// The device has no limit, because the planner decides whether the job fits.
struct DrySession::Machine {
  // The profile names the ops that could be replayed. None is, because no tensor moves.
  struct NoReplays final : engine::Replayer {
    Result<std::unique_ptr<engine::ReplayResults>> run(const engine::ReplayableOp&,
                                                       std::span<std::byte* const>) override {
      return Status(ErrorCode::kInternal, "a dry run replays no op");
    }
  };

  VirtualClock clock;
  std::unique_ptr<device::Device> device =
      device::make_counting_device(std::numeric_limits<int64_t>::max() / 2);
  TorchStorageSwap swap;
  NoReplays replayer;
  OpOrigins origins;
  SteadyPrecision steady_precision;
  std::optional<runtime::Runtime> runtime;  // last member, so destroyed first
};

DrySession::DrySession(const DrySessionOptions& options) : machine_(std::make_shared<Machine>()) {
  runtime::RuntimeOptions runtime_options;
  runtime_options.engine.device = machine_->device.get();
  runtime_options.engine.swap = &machine_->swap;
  runtime_options.engine.clock = &machine_->clock;
  runtime_options.replayer = &machine_->replayer;
  runtime_options.records_all = true;
  machine_->runtime.emplace(std::move(runtime_options));
  runtime_ = std::shared_ptr<runtime::Runtime>(machine_, &*machine_->runtime);
  active_ = std::make_shared<ActiveSession>();
  active_->runtime = runtime_;
  active_->backend = &cpu_backend();
  active_->origins = &machine_->origins;
  active_->steady_precision = &machine_->steady_precision;
  active_->list_op_slice_bytes = list_op_slice_bytes(options.device_memory_bytes);
  active_->is_dry = true;
}

DrySession::~DrySession() { (void)stop(); }

void DrySession::begin_step() {
  machine_->origins.forget_nodes();
  runtime_->begin_step();
}

void DrySession::end_step(uint64_t optimizer) {
  machine_->steady_precision.end_step();
  runtime_->end_step(optimizer);
}

Status DrySession::start() {
  if (active_session() != nullptr)
    return Status(ErrorCode::kInvalidArgument,
                  "a TERAIO session is running in this process: leave it before starting another");
  watch_forks();
  running_nodes_.emplace();
  set_active_session(active_.get());
  observe_this_thread(true);
  return {};
}

Status DrySession::stop() {
  if (active_session() != active_.get()) return {};
  observe_this_thread(false);
  set_active_session(nullptr);
  running_nodes_.reset();
  retire(active_);
  forget_collectives();
  return runtime_->stop();
}

void DrySession::add_birth(c10::StorageImpl& storage) { count_fake_storage(*active_, storage); }

void DrySession::resize(c10::StorageImpl& storage) { recount_fake_storage(*active_, storage); }

Status DrySession::spend(int64_t duration_ns, int64_t workspace_bytes) {
  machine_->clock.advance_to(machine_->clock.now_ns() + duration_ns);
  if (workspace_bytes == 0) return {};
  const Result<runtime::Allocation> workspace = runtime_->allocate(workspace_bytes);
  if (!workspace.ok()) return workspace.status();
  runtime_->release(workspace->tensor);
  return {};
}

std::optional<DryTrace> DrySession::trace() const {
  return with_record(runtime_->knowledge().trace);
}

std::optional<DryTrace> DrySession::last_trace() const {
  return with_record(runtime_->knowledge().last_trace);
}

std::optional<DryTrace> DrySession::with_record(std::optional<trace::Trace> trace) const {
  if (!trace) return std::nullopt;
  return DryTrace{std::move(*trace), runtime_->iterations().back()};
}

}  // namespace teraio::pytorch
