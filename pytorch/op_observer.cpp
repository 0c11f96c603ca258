#include "op_observer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "active_session.h"
#include "base/log.h"
#include "captured_storages.h"
#include "collective.h"
#include "fake_autograd.h"
#include "interrupts.h"
#include "list_op_pieces.h"
#include "op_capture.h"
#include "op_info.h"
#include "op_origins.h"
#include "script_location.h"
#include "storage_swap.h"
#include "storage_walk.h"
#include "tensor_handle.h"
#include "tried_ops.h"
#include "wrapped_calls.h"

namespace teraio::pytorch {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
// The key for collectives. It comes after the Python key, whose dispatch handles wrappers, and it
// is included on every thread.
constexpr c10::DispatchKey kCollectiveKey = c10::DispatchKey::BackendSelect;

// The outermost op of this thread. Its frame is reused, so that an op allocates nothing.
struct ThreadState {
  engine::OpFrame frame;
  std::vector<engine::LiveTensor*> nested_uses;  // scratch space for one nested op
  const OpInfo* op = nullptr;
  bool is_uncaptured = false;          // `op` is an operator that no graph captures
  bool has_run_collective = false;     // inside `op`
  std::unique_ptr<OpCapture> capture;  // of `op`; null: nobody wants to run it again

  // Returns whether a nested op needs no pin of its own. A write needs one unless the outermost op
  // writes the tensor too, because the runtime must learn that the bytes change.
  bool has_pinned(const engine::LiveTensor* tensor, bool is_write) const {
    const auto used = std::find_if(frame.uses.begin(), frame.uses.end(),
                                   [&](const engine::Use& use) { return use.tensor == tensor; });
    if (used != frame.uses.end() && (used->is_write || !is_write)) return true;
    return !is_write && std::any_of(frame.nested_uses.begin(), frame.nested_uses.end(),
                                    [&](const engine::Use& use) { return use.tensor == tensor; });
  }
};

thread_local ThreadState* known_thread = nullptr;

ThreadState& make_thread() {
  thread_local ThreadState state;
  known_thread = &state;
  return state;
}

// Costs one call: an access to a thread-local object that has a constructor costs three.
inline ThreadState& this_thread() {
  ThreadState* thread = known_thread;
  return thread != nullptr ? *thread : make_thread();
}

void call_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
                c10::DispatchKey key = kKey) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), stack);
}

std::span<const c10::IValue> results_of(const OpInfo& info, const torch::jit::Stack& stack) {
  return std::span(stack).last(std::min(info.return_count, stack.size()));
}

// Turns the observer off for the call of a collective. A library's threads may take over the
// thread-local state of the caller (gloo's do), and they must not be observed.
class UnobservedThread {
 public:
  UnobservedThread() : was_observed_(is_this_thread_observed()) { observe_this_thread(false); }
  ~UnobservedThread() { observe_this_thread(was_observed_); }
  UnobservedThread(const UnobservedThread&) = delete;
  UnobservedThread& operator=(const UnobservedThread&) = delete;

 private:
  const bool was_observed_;
};

// Observes every collective, including those that the dispatch of a wrapper calls while kKey is
// excluded.
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
    const UnobservedThread unobserved;
    call_below(op, keys, stack, kCollectiveKey);
  }
  operands.keep_until_over(*stack);
}

void unpin_nested(ActiveSession& session, ThreadState& thread) {
  for (const engine::Use& use : thread.frame.nested_uses)
    session.runtime->unpin(use.tensor, use.is_write);
  thread.frame.nested_uses.clear();
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

// The outermost op of this thread: the constructor begins it, and the destructor ends it, also when
// it throws.
//
// If a collective was part of the op, the tensors that were created in it are not complete: they
// may be buffers of the library, or results whose bytes arrive later. They stay resident until an
// op uses them. So do results of a thread whose current device is another one: a gradient that
// autograd copies to the session's device gets to its next thread by its address.
class OutermostOp {
 public:
  OutermostOp(ActiveSession& session, ThreadState& thread, const OpInfo& info,
              const c10::OperatorHandle& op, c10::DispatchKeySet keys,
              const torch::jit::Stack& stack)
      : session_(session),
        thread_(thread),
        info_(info),
        is_elsewhere_(session.has_streams && session.backend->is_on_other_stream()) {
    if (session.has_streams) session.stream_check.note_op(is_elsewhere_);
    thread.op = &info;
    thread.is_uncaptured = session.has_streams;  // observe_op() has asked then
    thread.frame.uses.clear();
    thread.frame.is_begun = false;
    thread.has_run_collective = false;
    thread.frame.replayable = nullptr;
    try {
      begin(op, keys, stack);
    } catch (...) {
      thread.op = nullptr;  // the destructor does not run
      throw;
    }
  }

  ~OutermostOp() {
    const StorageReferenceGuard guard;
    if (is_elsewhere_) record_this_stream();
    session_.runtime->end_op(thread_.frame, info_.name, signature_, completes_results());
    if (!thread_.frame.nested_uses.empty()) unpin_nested(session_, thread_);
    wrapped_calls_.reset();
    thread_.capture = nullptr;
    thread_.op = nullptr;
  }

  OutermostOp(const OutermostOp&) = delete;
  OutermostOp& operator=(const OutermostOp&) = delete;

  void add_results(const torch::jit::Stack& stack) {
    wrapped_calls_.reset();
    StorageWalk walk(session_, thread_.frame, 0, OpSide::kResults);
    const std::span<const c10::IValue> results = results_of(info_, stack);
    for (const c10::IValue& result : results) walk.visit(result, true);
    if (thread_.capture != nullptr) end_capture(*thread_.capture, results);
    if (thread_.frame.is_origin_wanted)
      session_.origins->note_nodes(first_node_, *thread_.frame.origin);
  }

 private:
  void begin(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
             const torch::jit::Stack& stack) {
    StorageWalk walk(session_, thread_.frame, info_.name_hash, OpSide::kArguments);
    const size_t first = stack.size() - info_.argument_count;
    for (size_t i = 0; i < info_.argument_count; ++i)
      walk.visit(stack[first + i], info_.is_write[i] != 0);
    signature_ = walk.signature();
    if (has_collectives_under_way.load(std::memory_order_acquire)) let_go_of_ended_collectives();
    const StorageReferenceGuard guard;
    if (info_.keeps_arguments) pin_all_permanently(*session_.runtime, thread_.frame.uses, info_);
    const Status status = session_.runtime->begin_op(thread_.frame, signature_);
    if (!status.ok()) throw_status(status, info_.name);
    if (const size_t difference = thread_.frame.new_difference; difference != 0)
      session_.runtime->set_place_of_difference(difference, std::string(info_.name),
                                                script_location());
    if (is_elsewhere_) order_this_stream(session_, info_, thread_.frame.uses);
    if (thread_.frame.is_origin_wanted) {
      first_node_ = graph_node_count();
      find_origin(session_, thread_.frame);
    }
    if (!thread_.frame.is_recipe_wanted || is_elsewhere_) return;
    begin_capture(op, stack, acts_on_wrappers(info_, keys, stack));
  }

  bool completes_results() const {
    return info_.completes_results && !thread_.has_run_collective &&
           !(session_.has_streams && session_.backend->is_on_other_device());
  }

  void begin_capture(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                     bool has_wrappers) {
    thread_.capture =
        std::make_unique<OpCapture>(thread_.frame, op, info_, stack, session_.is_dry, has_wrappers);
    if (has_wrappers) wrapped_calls_.emplace(*thread_.capture);
  }

  // An op whose results are discarded later has given the same bytes again before.
  void end_capture(OpCapture& capture, std::span<const c10::IValue> results) {
    if (thread_.has_run_collective) return;
    engine::OpFrame& frame = thread_.frame;
    auto captured = capture.finish(results, session_.runtime->births());
    if (captured == nullptr || !session_.steady_precision.holds_for(*captured)) return;
    const auto verdict = session_.is_dry ? TriedOps::Verdict::kNotTried : try_again(*captured);
    if (verdict == TriedOps::Verdict::kDifferent) return;
    if (frame.is_replay_planned && verdict == TriedOps::Verdict::kNotTried) return;
    frame.replayable = std::move(captured);
  }

  // Replays the op if that is planned and it is the first one of its kind.
  TriedOps::Verdict try_again(const CapturedOp& captured) {
    const engine::OpFrame& frame = thread_.frame;
    const uint64_t kind = kind_of(captured, signature_);
    TriedOps::Verdict verdict = session_.tried_ops->verdict(kind);
    if (verdict != TriedOps::Verdict::kNotTried || !frame.is_replay_planned) return verdict;
    engine::Runtime& runtime = *session_.runtime;
    const int64_t start_ns = runtime.begin_own_work();
    verdict = session_.tried_ops->try_once(kind, captured, runtime.addresses(frame.replay_inputs),
                                           runtime.addresses(frame.results));
    runtime.end_own_work(start_ns);
    if (verdict == TriedOps::Verdict::kDifferent) runtime.ban_replays(frame, info_.name);
    return verdict;
  }

  // Keeps the op's tensors resident until the stream that the op was enqueued on has finished it.
  void record_this_stream() {
    std::vector<engine::Use> used = thread_.frame.uses;
    for (const engine::Use& use : thread_.frame.nested_uses) used.push_back({use.tensor, false});
    session_.runtime->record_stream(session_.backend->stream_of_this_thread(), used);
  }

  ActiveSession& session_;
  ThreadState& thread_;
  const OpInfo& info_;
  const bool is_elsewhere_;
  engine::OpSignature signature_;
  uint64_t first_node_ = 0;  // that the op may add to a graph
  std::optional<WrappedCalls> wrapped_calls_;
};

// Pins the arguments of an op inside another op. Nearly always they are resident already, because
// the outermost op of this thread has pinned or created them. A pin by an op of another thread does
// not count, because that op may end first.
void pin_for_nested_op(ActiveSession& session, ThreadState& thread, const OpInfo& info,
                       const torch::jit::Stack& stack) {
  // A kernel may call ops, which run again with it.
  OpCapture* capture =
      thread.capture != nullptr && thread.capture->is_in_call() ? thread.capture.get() : nullptr;
  if (capture != nullptr && info.is_random) capture->give_up();
  const size_t first = stack.size() - info.argument_count;
  for (size_t i = 0; i < info.argument_count; ++i) {
    thread.nested_uses.clear();
    find_tensors(session, stack[first + i], thread.nested_uses);
    const bool is_write = info.is_write[i] != 0;
    for (engine::LiveTensor* tensor : thread.nested_uses) {
      if (is_newborn(*tensor)) continue;
      if (capture != nullptr && is_write) capture->give_up();
      if (thread.has_pinned(tensor, is_write)) continue;
      const StorageReferenceGuard guard;
      if (const Status status = session.runtime->pin(tensor, is_write); !status.ok())
        throw_status(status, info.name);
      thread.frame.nested_uses.push_back({tensor, is_write});
      order_this_stream(session, info, std::span(&thread.frame.nested_uses.back(), 1));
    }
  }
}

void run_nested(OpCapture* capture, const OpInfo& info, const c10::OperatorHandle& op,
                c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (capture == nullptr || !capture->wants(info, *stack)) return call_below(op, keys, stack);
  capture->begin_call(op, info, *stack);
  call_below(op, keys, stack);
  capture->end_call(results_of(info, *stack));
}

inline void run_outermost(ActiveSession& session, ThreadState& thread, const OpInfo& info,
                          const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) {
  OutermostOp outermost(session, thread, info, op, keys, *stack);
  call_below(op, keys, stack);
  outermost.add_results(*stack);
}

// Returns false when the op is to run as one.
bool run_list_op(ActiveSession& session, ThreadState& thread, const OpInfo& info,
                 const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  return run_in_pieces(info, session.chunk_bytes, stack, [&](torch::jit::Stack* piece) {
    run_outermost(session, thread, info, op, keys, piece);
  });
}

void observe_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const SessionUse use;
  ActiveSession* session = use.get();
  if (session == nullptr) return run_without_session(op, keys, stack);
  const OpInfo& info = op_info(op);
  ThreadState& thread = this_thread();
  if (session->has_streams && session->backend->is_capturing())
    return run_captured(*session, info, op, keys, stack);
  if (thread.op != nullptr) {
    pin_for_nested_op(*session, thread, info, *stack);
    return run_nested(thread.capture.get(), info, op, keys, stack);
  }
  if (session->is_dry && acts_on_wrappers(info, keys, *stack)) return call_below(op, keys, stack);
  if (session->is_dry && !is_on_parts())
    if (const auto sum = as_sum_in_place(info, stack)) return observe_op(*sum, keys, stack);
  if (info.is_list_op && run_list_op(*session, thread, info, op, keys, stack)) return;
  run_outermost(*session, thread, info, op, keys, stack);
}

}  // namespace

void order_this_stream(const ActiveSession& session, const OpInfo& info,
                       std::span<const engine::Use> uses) {
  if (!session.has_streams || !session.backend->is_on_other_stream()) return;
  const Status status =
      session.runtime->order_stream(session.backend->stream_of_this_thread(), uses);
  if (!status.ok()) throw_status(status, info.name);
}

void pin_all_permanently(engine::Runtime& runtime, const std::vector<engine::Use>& uses,
                         const OpInfo& info) {
  for (const engine::Use& use : uses)
    if (const Status status = runtime.pin_permanently(use.tensor); !status.ok())
      throw_status(status, info.name);
}

std::string_view observer_dispatch_key() { return c10::toString(kKey); }

void observe_this_thread(bool is_on) { c10::impl::tls_set_dispatch_key_included(kKey, is_on); }

bool is_this_thread_observed() { return c10::impl::tls_is_dispatch_key_included(kKey); }

ObservedParts::ObservedParts() : was_excluded_(c10::impl::tls_is_dispatch_key_excluded(kKey)) {
  c10::impl::tls_set_dispatch_key_excluded(kKey, false);
}

ObservedParts::~ObservedParts() { c10::impl::tls_set_dispatch_key_excluded(kKey, was_excluded_); }

bool is_observer_reached() { return !c10::impl::tls_is_dispatch_key_excluded(kKey); }

bool enter_op(const OpInfo& info) {
  ThreadState& thread = this_thread();
  if (thread.op != nullptr) return false;
  thread.op = &info;
  thread.is_uncaptured = false;  // a compiled program may capture itself
  return true;
}

void leave_op(ActiveSession& session) {
  ThreadState& thread = this_thread();
  unpin_nested(session, thread);
  thread.op = nullptr;
}

bool pin_until_op_ends(ActiveSession& session, engine::LiveTensor* tensor) {
  ThreadState& thread = this_thread();
  if (thread.op == nullptr) return false;
  if (thread.capture != nullptr) thread.capture->give_up();  // it misses what the kernel writes
  if (is_newborn(*tensor) || thread.has_pinned(tensor, true)) return true;
  const StorageReferenceGuard guard;
  if (const Status status = session.runtime->pin(tensor, /*is_write=*/true); !status.ok())
    throw_status(status, thread.op->name);
  thread.frame.nested_uses.push_back({tensor, true});
  order_this_stream(session, *thread.op, std::span(&thread.frame.nested_uses.back(), 1));
  return true;
}

bool runs_uncaptured_op() {
  const ThreadState& thread = this_thread();
  return thread.op != nullptr && thread.is_uncaptured;
}

std::string_view current_op_name() {
  const OpInfo* op = this_thread().op;
  return op == nullptr ? std::string_view() : std::string_view(op->name);
}

void throw_status(const Status& status, std::string_view op_name) {
  if (status.code() == ErrorCode::kInterrupted) throw_interrupt(status);
  const std::string message = fmt::format(
      "TERAIO: {}{}{}", op_name.empty() ? "an allocation outside of an operator" : "op ", op_name,
      status.code() == ErrorCode::kOutOfMemory ? " " + full_text(status)
                                               : ": " + full_text(status));
  TORCH_CHECK_WITH(OutOfMemoryError, status.code() != ErrorCode::kOutOfMemory, message);
  TORCH_CHECK(false, message);
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
