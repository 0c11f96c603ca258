#include "observe/op_observer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "observe/collective.h"
#include "observe/fake_autograd.h"
#include "observe/list_op_slices.h"
#include "observe/nested_op.h"
#include "observe/observed_thread.h"
#include "observe/op_pins.h"
#include "observe/outermost_op.h"
#include "observe/unmarked_arguments.h"
#include "op_info.h"
#include "storages/active_session.h"
#include "storages/captured_storages.h"
#include "storages/storage_swap.h"
#include "storages/storage_walk.h"

namespace teraio::pytorch {
namespace {

// The key for collectives. It comes after the Python key, whose dispatch handles wrappers, and it
// is included on every thread.
constexpr c10::DispatchKey kCollectiveKey = c10::DispatchKey::BackendSelect;

void call_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
                c10::DispatchKey key = kObserverKey) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), stack);
}

std::span<const c10::IValue> results_of(const OpInfo& info, const torch::jit::Stack& stack) {
  return std::span(stack).last(std::min(info.return_count, stack.size()));
}

// Observes every collective, including those that the dispatch of a wrapper calls while
// kObserverKey is excluded.
void observe_collective(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack) {
  const SessionUse use;
  ActiveSession* session = use.get();
  if (session == nullptr || (session->has_streams && session->backend->is_capturing()))
    return call_below(op, keys, stack, kCollectiveKey);
  const OpInfo& info = op_info(op);
  this_thread().has_run_collective = true;
  CollectiveOperands operands(*session, info, *stack);
  {
    // A library's threads may take over the thread-local state of the caller (gloo's do).
    const UnobservedThread unobserved;
    call_below(op, keys, stack, kCollectiveKey);
  }
  operands.keep_until_over(*stack);
}

// Runs an op that a graph captures. The graph replays it later with the same addresses, so its
// tensors are pinned permanently or kept in place, and the runtime is told of no op: nothing may
// move during the capture.
void run_captured(ActiveSession& session, const OpInfo& info, const c10::OperatorHandle& op,
                  c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  {
    const StorageReferenceGuard guard;
    engine::OpFrame frame;
    StorageWalk walk(session, frame, 0, OpSide::kCaptured);
    for (const c10::IValue& argument : arguments_of(info, *stack)) walk.visit(argument, false);
    pin_all_permanently(*session.runtime, frame.uses, info);
  }
  call_below(op, keys, stack);
  engine::OpFrame frame;
  StorageWalk walk(session, frame, 0, OpSide::kCaptured);
  for (const c10::IValue& result : results_of(info, *stack)) walk.visit(result, true);
}

// Notes what the op uses for later sessions, if a graph captures it.
void run_without_session(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) {
  if (captures_outside_of_sessions.load(std::memory_order_relaxed) == 0)
    return call_below(op, keys, stack);
  const OpInfo& info = op_info(op);
  for (const c10::IValue& argument : arguments_of(info, *stack)) note_captured(argument);
  call_below(op, keys, stack);
  for (const c10::IValue& result : results_of(info, *stack)) note_captured(result);
}

// Returns whether an argument is a wrapper around other tensors. Most ops have none, which the
// absence of the Python key tells at once.
bool acts_on_wrappers(const OpInfo& info, c10::DispatchKeySet keys,
                      const torch::jit::Stack& stack) {
  if (!keys.has(c10::DispatchKey::Python)) return false;
  const auto arguments = stack.end() - static_cast<ptrdiff_t>(info.argument_count);
  return std::any_of(arguments, stack.end(), has_wrapper);
}

// Returns whether this thread is inside the dispatch of a wrapper, which runs below autograd.
bool is_on_parts() {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality);
}

// `visitor` is a StorageWalk or a NestedPins.
template <class Visitor>
void visit_arguments(Visitor& visitor, const OpInfo& info, const torch::jit::Stack& stack) {
  const std::span<const c10::IValue> arguments = arguments_of(info, stack);
  for (size_t i = 0; i < arguments.size(); ++i) visitor.visit(arguments[i], info.is_write[i] != 0);
}

void run_nested(ActiveSession& session, ObservedThread& thread, const OpInfo& info,
                const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  NestedPins pins(session, thread, info);
  visit_arguments(pins, info, *stack);
  OpCapture* capture = thread.capture.get();
  if (capture == nullptr) return call_below(op, keys, stack);
  capture->count_flops(info, arguments_of(info, *stack));
  if (!capture->wants(info, *stack)) return call_below(op, keys, stack);
  capture->begin_call(op, info, *stack);
  call_below(op, keys, stack);
  capture->end_call(results_of(info, *stack));
}

inline void run_outermost(ActiveSession& session, ObservedThread& thread, const OpInfo& info,
                          const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) {
  OutermostOp outermost(session, thread, info);
  StorageWalk arguments = outermost.arguments();
  visit_arguments(arguments, info, *stack);
  outermost.begin(arguments.signature());
  if (outermost.wants_capture())
    outermost.begin_capture(op, *stack, acts_on_wrappers(info, keys, *stack));
  std::optional<UnmarkedArguments> unmarked;
  if (session.checks_schemas && info.is_checked) unmarked.emplace(info, arguments_of(info, *stack));
  call_below(op, keys, stack);
  if (unmarked) unmarked->check();
  StorageWalk results = outermost.results();
  for (const c10::IValue& result : results_of(info, *stack)) results.visit(result, true);
  outermost.finish(results_of(info, *stack));
}

// Returns false when the op is to run as one.
bool run_list_op(ActiveSession& session, ObservedThread& thread, const OpInfo& info,
                 const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  return run_in_slices(info, session.list_op_slice_bytes, stack, [&](torch::jit::Stack* slice) {
    run_outermost(session, thread, info, op, keys, slice);
  });
}

}  // namespace

void observe_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const SessionUse use;
  ActiveSession* session = use.get();
  if (session == nullptr) return run_without_session(op, keys, stack);
  const OpInfo& info = op_info(op);
  ObservedThread& thread = this_thread();
  if (thread.is_capturing(*session)) return run_captured(*session, info, op, keys, stack);
  if (thread.op != nullptr) return run_nested(*session, thread, info, op, keys, stack);
  if (session->is_dry && acts_on_wrappers(info, keys, *stack)) return call_below(op, keys, stack);
  if (session->is_dry && !is_on_parts())
    if (const auto sum = as_sum_in_place(info, stack)) return observe_op(*sum, keys, stack);
  if (info.is_list_op && run_list_op(*session, thread, info, op, keys, stack)) return;
  run_outermost(*session, thread, info, op, keys, stack);
}

}  // namespace teraio::pytorch

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&teraio::pytorch::observe_op>());
}

TORCH_LIBRARY_IMPL(c10d, BackendSelect, library) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.getNamespace() == "c10d")
      library.impl(
          c10::toString(name).c_str(),
          torch::CppFunction::makeFromBoxedFunction<&teraio::pytorch::observe_collective>());
}
