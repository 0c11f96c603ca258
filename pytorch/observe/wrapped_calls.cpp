#include "observe/wrapped_calls.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <exception>
#include <memory>
#include <optional>
#include <span>

#include "observe/observed_thread.h"
#include "op_info.h"

namespace teraio::pytorch {
namespace {

thread_local OpCapture* listening = nullptr;

// That of a call which is captured.
struct CapturedCallContext final : at::ObserverContext {
  explicit CapturedCallContext(const OpInfo& call_info) : info(call_info) {}
  const OpInfo& info;
};

std::unique_ptr<at::ObserverContext> begin_call(const at::RecordFunction& call) {
  OpCapture* capture = listening;
  if (capture == nullptr || is_observer_reached()) return nullptr;
  const std::optional<c10::OperatorName> name = call.operator_name();
  if (!name) return nullptr;  // a range that the program names, and no op
  const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(*name);
  if (!op) {
    capture->give_up();
    return nullptr;
  }
  const OpInfo& info = op_info(*op);
  const c10::ArrayRef<const c10::IValue> values = call.inputs();
  if (values.size() < info.argument_count) {
    capture->give_up();
    return nullptr;
  }
  const torch::jit::Stack arguments(values.end() - info.argument_count, values.end());
  capture->look_at_part(info, arguments);
  capture->count_flops(info, arguments);
  if (!capture->wants(info, arguments)) return nullptr;
  capture->begin_call(*op, info, arguments);
  return std::make_unique<CapturedCallContext>(info);
}

// A call that has raised has no results.
void end_call(const at::RecordFunction& call, at::ObserverContext* context) {
  OpCapture* capture = listening;
  if (capture == nullptr || context == nullptr) return;
  const OpInfo& info = static_cast<CapturedCallContext*>(context)->info;
  const std::span<const c10::IValue> results = call.outputs();
  if (results.size() < info.return_count) return capture->give_up();
  capture->end_call(results.last(info.return_count));
}

// A callback must not raise.
std::unique_ptr<at::ObserverContext> try_to_begin_call(const at::RecordFunction& call) {
  try {
    return begin_call(call);
  } catch (const std::exception&) {
    listening->give_up();
    return nullptr;
  }
}

void try_to_end_call(const at::RecordFunction& call, at::ObserverContext* context) {
  try {
    end_call(call, context);
  } catch (const std::exception&) {
    listening->give_up();
  }
}

at::RecordFunctionCallback callback() {
  return at::RecordFunctionCallback(&try_to_begin_call, &try_to_end_call)
      .needsInputs(true)
      .needsOutputs(true)
      .scopes({at::RecordScope::FUNCTION});
}

}  // namespace

WrappedCalls::WrappedCalls(OpCapture& capture) : callback_(at::addThreadLocalCallback(callback())) {
  listening = &capture;
}

WrappedCalls::~WrappedCalls() {
  listening = nullptr;
  at::removeCallback(callback_);
}

}  // namespace teraio::pytorch
