#include "escapes/opaque_op.h"

#include <xxhash.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "observe/collective.h"
#include "observe/nested_op.h"
#include "observe/observed_thread.h"
#include "observe/op_origins.h"
#include "observe/op_pins.h"
#include "op_error.h"
#include "script_location.h"
#include "storages/storage_swap.h"
#include "storages/storage_walk.h"

namespace teraio::pytorch {
namespace {

// Makes the calling thread's ops nested ops of `info` until leave_op(). `info` must live until
// then. Returns false and has no effect when the thread runs an op already; the caller must not
// call leave_op() then.
bool enter_op(const OpInfo& info) {
  ObservedThread& thread = this_thread();
  if (thread.op != nullptr) return false;
  thread.op = &info;
  thread.is_uncaptured = false;  // a compiled program may capture itself
  thread.frame.uses.clear();
  return true;
}

// Unpins what the nested ops have used. Call it on the thread that called enter_op().
void leave_op(ActiveSession& session) {
  ObservedThread& thread = this_thread();
  unpin_nested(session, thread);
  thread.op = nullptr;
}

}  // namespace

const OpInfo& opaque_op_info(const std::string& name, bool completes_results) {
  static std::mutex mutex;
  static auto* infos = new std::unordered_map<std::string, OpInfo>();
  const std::lock_guard lock(mutex);
  OpInfo& info = (*infos)[name];
  if (info.name.empty()) {
    info.name = name;
    info.name_hash = XXH3_64bits(name.data(), name.size());
    info.completes_results = completes_results;
  }
  return info;
}

OpaqueOp::OpaqueOp(const OpInfo& info, std::span<const OpaqueInput> inputs)
    : session_(SessionUse().share()), info_(info) {
  if (session_ == nullptr) return;
  ThreadPlace place;
  if (session_->has_streams) place = session_->backend->place_of_this_thread();
  if (place.is_capturing) {
    pin_inputs(inputs);
    return;
  }
  is_outermost_ = enter_op(info_);
  if (is_outermost_) frame_ = &this_thread().frame;
  is_elsewhere_ = place.is_on_other_stream;
  try {
    StorageWalk walk(*session_, *frame_, info_.name_hash,
                     is_outermost_ ? OpSide::kArguments : OpSide::kNestedArguments);
    for (const OpaqueInput& input : inputs) walk.visit(*input.tensor, input.is_write);
    signature_ = walk.signature();
    hold_inputs();
  } catch (...) {
    if (is_outermost_) leave_op(*session_);
    throw;
  }
}

void OpaqueOp::pin_inputs(std::span<const OpaqueInput> inputs) {
  const StorageReferenceGuard guard;
  const std::shared_ptr<ActiveSession> session = std::exchange(session_, nullptr);
  StorageWalk walk(*session, *frame_, 0, OpSide::kCaptured);
  for (const OpaqueInput& input : inputs) walk.visit(*input.tensor, false);
  pin_all_permanently(*session->runtime, frame_->uses, info_);
}

void OpaqueOp::hold_inputs() {
  const StorageReferenceGuard guard;
  if (is_outermost_) return begin_outermost();
  for (size_t i = 0; i < frame_->uses.size(); ++i) {
    const engine::Use& use = frame_->uses[i];
    const Status status = session_->runtime->pin(use.tensor, use.is_write);
    if (!status.ok()) {
      for (size_t k = 0; k < i; ++k)
        session_->runtime->unpin(frame_->uses[k].tensor, frame_->uses[k].is_write);
      throw_status(status, info_.name);
    }
  }
  order_this_stream(*session_, info_, frame_->uses);
}

void OpaqueOp::begin_outermost() {
  if (has_collectives_under_way.load(std::memory_order_acquire)) release_ended_collectives();
  const Result<engine::OpRequests> requests = session_->runtime->begin_op(*frame_, signature_);
  if (!requests.ok()) throw_status(requests.status(), info_.name);
  if (requests->is_place_wanted) facts_.place = script_location();
  if (is_elsewhere_) order_this_stream(*session_, info_, frame_->uses);
  find_origin(*session_, *requests, facts_);
}

OpaqueOp::~OpaqueOp() {
  if (session_ != nullptr) finish();
}

void OpaqueOp::end(std::span<const at::Tensor> results) {
  if (session_ == nullptr) return;
  if (is_outermost_) {
    StorageWalk walk(*session_, *frame_, 0, OpSide::kResults);
    for (const at::Tensor& result : results) walk.visit(result, true);
  }
  finish();
}

void OpaqueOp::finish() {
  const StorageReferenceGuard guard;
  const std::shared_ptr<ActiveSession> session = std::exchange(session_, nullptr);
  if (is_elsewhere_)
    session->runtime->record_stream(session->backend->stream_of_this_thread(), frame_->uses);
  if (is_outermost_) {
    facts_.is_complete = info_.completes_results;
    session->runtime->end_op(*frame_, info_.name, signature_, facts_);
    leave_op(*session);
    return;
  }
  for (const engine::Use& use : frame_->uses) session->runtime->unpin(use.tensor, use.is_write);
}

CallbackOps::CallbackOps() : session_(SessionUse().share()) {
  if (session_ != nullptr && session_->is_dry) session_ = nullptr;
  if (session_ == nullptr) return;
  was_observed_ = is_this_thread_observed();
  observe_this_thread(true);
  is_outermost_ = enter_op(opaque_op_info("teraio::callback"));
}

void CallbackOps::end() {
  if (session_ == nullptr) return;
  const std::shared_ptr<ActiveSession> session = std::exchange(session_, nullptr);
  if (is_outermost_) leave_op(*session);
  observe_this_thread(was_observed_);
}

}  // namespace teraio::pytorch
