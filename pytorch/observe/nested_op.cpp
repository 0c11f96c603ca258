#include "observe/nested_op.h"

#include <span>

#include "observe/op_pins.h"
#include "op_error.h"
#include "storages/storage_swap.h"
#include "storages/storage_walk.h"

namespace teraio::pytorch {

// A kernel may call ops, which run again with it.
NestedPins::NestedPins(ActiveSession& session, ObservedThread& thread, const OpInfo& info)
    : session_(session), thread_(thread), info_(info) {
  if (thread.capture == nullptr || !thread.capture->is_in_call()) return;
  capture_ = thread.capture.get();
  if (info.is_random) capture_->give_up();
}

void NestedPins::visit(const c10::IValue& argument, bool is_write) {
  thread_.nested_uses.clear();
  find_tensors(session_, argument, thread_.nested_uses);
  pin_found(is_write);
}

void NestedPins::visit(const at::Tensor& argument, bool is_write) {
  may_have_tangents_ |= may_have_tangent(argument);
  thread_.nested_uses.clear();
  find_tensors(session_, argument, thread_.nested_uses);
  pin_found(is_write);
}

void NestedPins::pin_found(bool is_write) {
  for (engine::LiveTensor* tensor : thread_.nested_uses) {
    if (!is_complete(*tensor)) continue;
    if (capture_ != nullptr && is_write) capture_->give_up();
    if (!thread_.has_pinned(tensor, is_write)) pin(tensor, is_write);
  }
}

void NestedPins::pin(engine::LiveTensor* tensor, bool is_write) {
  const StorageReferenceGuard guard;
  if (const Status status = session_.runtime->pin(tensor, is_write); !status.ok())
    throw_status(status, info_.name);
  thread_.frame.nested_uses.push_back({tensor, is_write});
  order_this_stream(session_, info_, std::span(&thread_.frame.nested_uses.back(), 1));
}

void unpin_nested(ActiveSession& session, ObservedThread& thread) {
  for (const engine::Use& use : thread.frame.nested_uses)
    session.runtime->unpin(use.tensor, use.is_write);
  thread.frame.nested_uses.clear();
}

}  // namespace teraio::pytorch
