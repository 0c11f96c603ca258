#include "session/session.h"

#include <utility>

#include "escapes/aliases.h"
#include "interrupts.h"
#include "observe/collective.h"
#include "observe/list_op_slices.h"
#include "observe/observed_thread.h"
#include "storages/adoption.h"
#include "storages/captured_storages.h"
#include "storages/forked_child.h"

namespace teraio::pytorch {

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  const Result<DeviceBackend*> backend = find_backend(options.device);
  if (!backend.ok()) return backend.status();
  auto framework = std::make_unique<TorchFramework>(**backend, std::move(options.system_root));
  std::unique_ptr<Session> session(new Session());
  session->framework_ = framework.get();
  session->checks_schemas_ = options.checks_schemas;
  Result<std::unique_ptr<runtime::TrainingRun>> run =
      runtime::TrainingRun::open(std::move(options.run), std::move(framework));
  if (!run.ok()) return run.status();
  session->run_ = std::move(*run);
  return session;
}

// In a forked child the run is leaked: its threads exist only in the parent.
Session::~Session() {
  if (run_ == nullptr) return;
  if (is_forked_child()) run_->leak();
  if (is_running() && !stop().ok()) discard();
}

bool Session::is_running() const { return active_ != nullptr && active_session() == active_.get(); }

Status Session::start() {
  if (active_session() != nullptr)
    return Status(ErrorCode::kInvalidArgument,
                  "a TERAIO session is running in this process: leave it before starting another");
  if (active_ != nullptr)
    return Status(ErrorCode::kInvalidArgument, "this TERAIO session has ended: open a new one");
  DeviceBackend& backend = framework_->backend();
  active_ = std::make_shared<ActiveSession>();
  active_->runtime = run_->runtime();
  active_->backend = &backend;
  active_->has_streams = backend.has_streams();
  active_->checks_schemas = checks_schemas_;
  active_->tried_ops = &framework_->tried_ops();
  active_->origins = &framework_->origins();
  active_->steady_precision = &framework_->steady_precision();
  active_->smallest_tensor_bytes = run_->options().smallest_tensor_bytes;
  active_->list_op_slice_bytes = list_op_slice_bytes(run_->options().device_budget_bytes);
  backend.install();
  watch_forks();
  Interrupts::instance().start();
  set_active_session(active_.get());
  for (const auto& storage : captured_storages()) keep_in_place(*active_, *storage);
  observe_this_thread(true);
  return {};
}

void Session::begin_adoption() { active_->may_adopt = true; }

std::vector<c10::intrusive_ptr<c10::StorageImpl>> Session::find_aliases() const {
  return pytorch::find_aliases([this](c10::StorageImpl& storage) {
    return can_adopt(framework_->backend(), run_->options().smallest_tensor_bytes, storage);
  });
}

void Session::begin_step() {
  framework_->origins().forget_nodes();
  runtime().begin_step();
}

void Session::end_step(uint64_t optimizer) {
  const StorageReferenceGuard guard;
  if (active_ != nullptr) framework_->steady_precision().end_step();
  runtime().end_step(optimizer);
}

// The hooks come off last: an op that another thread begins meanwhile waits for its tensors.
Status Session::stop() {
  if (!is_running()) return {};
  {
    const StorageReferenceGuard guard;
    TERAIO_RETURN_IF_ERROR(run_->prepare_stop());
  }
  const StorageReferenceGuard guard;
  forget_collectives();
  const Status status = run_->stop();
  take_hooks_off();
  Interrupts::instance().stop();
  run_->close();
  return status;
}

void Session::discard() {
  if (!is_running()) return;
  take_hooks_off();
  const StorageReferenceGuard guard;
  forget_collectives();
  run_->discard();
  Interrupts::instance().stop();
  run_->close();
}

void Session::take_hooks_off() {
  observe_this_thread(false);
  set_active_session(nullptr);
  // A thread that entered an op before the end still reads it, maybe after the session object.
  retire(active_);
}

}  // namespace teraio::pytorch
