#include "observe/outermost_op.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "observe/collective.h"
#include "observe/fake_autograd.h"
#include "observe/nested_op.h"
#include "observe/op_origins.h"
#include "observe/op_pins.h"
#include "op_error.h"
#include "replay/steady_precision.h"
#include "script_location.h"
#include "storages/storage_swap.h"

namespace teraio::pytorch {

OutermostOp::OutermostOp(ActiveSession& session, ObservedThread& thread, const OpInfo& info)
    : session_(session),
      thread_(thread),
      info_(info),
      is_elsewhere_(session.has_streams && thread.place.is_on_other_stream) {
  if (session.has_streams) session.stream_check.note_op(is_elsewhere_);
  thread.op = &info;
  thread.is_uncaptured = session.has_streams;  // the observer has asked then
  thread.frame.uses.clear();
  thread.has_run_collective = false;
}

OutermostOp::~OutermostOp() {
  const StorageReferenceGuard guard;
  if (is_elsewhere_) record_this_stream();
  if (has_begun_) {
    facts_.is_complete = completes_results();
    session_.runtime->end_op(thread_.frame, info_.name, signature_, facts_);
  }
  if (!thread_.frame.nested_uses.empty()) unpin_nested(session_, thread_);
  wrapped_calls_.reset();
  thread_.capture = nullptr;
  thread_.is_typed = false;
  thread_.op = nullptr;
}

void OutermostOp::begin(const iteration::OpSignature& signature) {
  signature_ = signature;
  if (has_collectives_under_way.load(std::memory_order_acquire)) release_ended_collectives();
  const StorageReferenceGuard guard;
  if (info_.keeps_arguments) pin_all_permanently(*session_.runtime, thread_.frame.uses, info_);
  const Result<engine::OpRequests> requests = session_.runtime->begin_op(thread_.frame, signature_);
  if (!requests.ok()) throw_status(requests.status(), info_.name);
  requests_ = *requests;
  has_begun_ = true;
  if (requests_.is_place_wanted) facts_.place = script_location();
  if (is_elsewhere_) order_this_stream(session_, info_, thread_.frame.uses);
  if (!requests_.is_origin_wanted) return;
  first_node_ = graph_node_count();
  find_origin(session_, requests_, facts_);
}

void OutermostOp::begin_capture(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                                bool has_wrappers) {
  thread_.capture =
      std::make_unique<OpCapture>(thread_.frame, op, info_, stack, session_.is_dry, has_wrappers);
  if (has_wrappers) wrapped_calls_.emplace(*thread_.capture);
}

void OutermostOp::finish(std::span<const c10::IValue> results) {
  if (thread_.capture != nullptr) {
    facts_.flops = &thread_.capture->flops();
    end_capture(*thread_.capture, results);
  }
  if (requests_.is_origin_wanted) session_.origins->note_nodes(first_node_, *facts_.origin);
}

bool OutermostOp::completes_results() const {
  return info_.completes_results && !thread_.has_run_collective &&
         !(session_.has_streams && thread_.place.is_on_other_device);
}

// An op whose results are discarded later has given the same bytes again before.
void OutermostOp::end_capture(OpCapture& capture, std::span<const c10::IValue> results) {
  if (thread_.has_run_collective) return;
  auto captured = capture.finish(results, session_.runtime->births(), facts_.replay);
  if (captured == nullptr || !session_.steady_precision->holds_for(*captured)) return;
  const auto verdict = session_.is_dry ? TriedOps::Verdict::kNotTried : try_again(*captured);
  if (verdict == TriedOps::Verdict::kDifferent) return;
  if (requests_.is_replay_planned && verdict == TriedOps::Verdict::kNotTried) return;
  facts_.replay.op = std::move(captured);
}

// Replays the op if that is planned and it is the first one of its kind.
TriedOps::Verdict OutermostOp::try_again(const CapturedOp& captured) {
  const uint64_t kind = kind_of(captured, signature_);
  TriedOps::Verdict verdict = session_.tried_ops->verdict(kind);
  if (verdict != TriedOps::Verdict::kNotTried || !requests_.is_replay_planned) return verdict;
  runtime::Runtime& runtime = *session_.runtime;
  const int64_t start_ns = runtime.begin_own_work();
  const engine::ReplayMark mark;
  verdict = session_.tried_ops->try_once(kind, captured, engine::addresses_of(facts_.replay.inputs),
                                         engine::addresses_of(facts_.replay.results));
  runtime.end_own_work(start_ns);
  facts_.has_differed = verdict == TriedOps::Verdict::kDifferent;
  return verdict;
}

// Keeps the op's tensors resident until the stream that the op was enqueued on has finished it.
void OutermostOp::record_this_stream() {
  std::vector<engine::Use> used;
  if (has_begun_) used = thread_.frame.uses;  // else they are not pinned
  for (const engine::Use& use : thread_.frame.nested_uses) used.push_back({use.tensor, false});
  session_.runtime->record_stream(session_.backend->stream_of_this_thread(), used);
}

}  // namespace teraio::pytorch
