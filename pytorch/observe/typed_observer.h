// TypedObserver: observes an operator whose C++ type is known, with its arguments as they are.
//
// The boxed observer makes an IValue of each argument and each result, in memory that it allocates,
// and the call below takes them out again, also for the ops inside of an op. Both observers tell
// the runtime the same. Where something else is to be done
// with the arguments than to look at them, the typed one calls the boxed one.
//
//     library.impl("mul.Tensor", TORCH_FN((TypedObserver<at::_ops::mul_Tensor>::observe)));
//
// Threads: as the boxed observer (observe/op_observer.h).
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "observe/nested_op.h"
#include "observe/observed_thread.h"
#include "observe/op_observer.h"
#include "observe/outermost_op.h"
#include "op_info.h"
#include "storages/active_session.h"
#include "storages/captured_storages.h"

namespace teraio::pytorch {

// Whether a type of an argument or a result has no tensor in it.
template <class Type>
inline constexpr bool is_value =
    std::is_arithmetic_v<Type> || std::is_enum_v<Type> || std::is_same_v<Type, c10::SymInt> ||
    std::is_same_v<Type, c10::Scalar> || std::is_same_v<Type, c10::Device> ||
    std::is_same_v<Type, c10::string_view> || std::is_same_v<Type, at::Generator>;
template <class Type>
inline constexpr bool is_value<std::optional<Type>> = is_value<Type>;
template <class Type>
inline constexpr bool is_value<c10::ArrayRef<Type>> = is_value<Type>;
template <class Type>
inline constexpr bool is_value<c10::OptionalArrayRef<Type>> = is_value<Type>;
template <class Type, size_t count>
inline constexpr bool is_value<std::array<Type, count>> = is_value<Type>;

// Shows the tensors in an argument or a result to a StorageWalk or a NestedPins.
template <class Visitor, class Type>
void show(Visitor& visitor, const Type& value, bool is_write) {
  if constexpr (std::is_same_v<Type, at::Tensor>) {
    visitor.visit(value, is_write);
  } else if constexpr (std::is_same_v<Type, std::optional<at::Tensor>>) {
    if (value.has_value()) visitor.visit(*value, is_write);
  } else if constexpr (std::is_same_v<Type, c10::List<std::optional<at::Tensor>>>) {
    for (const std::optional<at::Tensor>& tensor : value) show(visitor, tensor, is_write);
  } else if constexpr (std::is_same_v<Type, at::ITensorListRef> ||
                       std::is_same_v<Type, at::TensorList> ||
                       std::is_same_v<Type, std::vector<at::Tensor>>) {
    for (const at::Tensor& tensor : value) visitor.visit(tensor, is_write);
  } else {
    static_assert(is_value<Type>, "a type that nobody has looked at may have tensors in it");
  }
}
template <class Visitor, class... Types>
void show(Visitor& visitor, const std::tuple<Types...>& values, bool is_write) {
  std::apply([&](const auto&... each) { (show(visitor, each, is_write), ...); }, values);
}

template <class Type>
void push_results(torch::jit::Stack& stack, const Type& result) {
  stack.emplace_back(result);
}
template <class... Types>
void push_results(torch::jit::Stack& stack, const std::tuple<Types...>& results) {
  std::apply([&](const auto&... each) { (stack.emplace_back(each), ...); }, results);
}

// What the typed observer does with a call.
enum class CallKind : uint8_t { kUnobserved, kNested, kOutermost, kBoxed };

inline CallKind kind_of_call(ActiveSession* session, ObservedThread& thread,
                             c10::DispatchKeySet keys) {
  if (session == nullptr)
    return captures_outside_of_sessions.load(std::memory_order_relaxed) == 0 ? CallKind::kUnobserved
                                                                             : CallKind::kBoxed;
  if (session->is_dry || keys.has(c10::DispatchKey::Python)) return CallKind::kBoxed;
  if (thread.is_capturing(*session)) return CallKind::kBoxed;
  if (thread.op == nullptr) return CallKind::kOutermost;
  return thread.capture == nullptr ? CallKind::kNested : CallKind::kBoxed;
}

// `Op` is a struct of ATen/Operators.h. Not for the foreach and fused ops, which run in slices.
// `kUsesBytes`: false for an operator that makes a view, or only calls others. Inside of a typed
// operator, nobody looks at it: the operators that it calls, or that use the view, pin what they
// use.
template <class Op, bool kUsesBytes = true, class Function = typename Op::schema>
class TypedObserver;

template <class Op, bool kUsesBytes, class Return, class... Arguments>
class TypedObserver<Op, kUsesBytes, Return(Arguments...)> {
 public:
  static Return observe(c10::DispatchKeySet keys, Arguments... arguments) {
    ObservedThread& thread = this_thread();
    if (!kUsesBytes && thread.is_typed && thread.capture == nullptr &&
        !keys.has(c10::DispatchKey::Python))
      return Op::redispatch(below_observer(keys), std::forward<Arguments>(arguments)...);
    const SessionUse use;
    switch (kind_of_call(use.get(), thread, keys)) {
      case CallKind::kUnobserved:
        return Op::redispatch(below_observer(keys), std::forward<Arguments>(arguments)...);
      case CallKind::kNested:
        return run_nested(*use.get(), thread, keys, std::forward<Arguments>(arguments)...);
      case CallKind::kOutermost:
        return run_outermost(*use.get(), thread, keys, std::forward<Arguments>(arguments)...);
      case CallKind::kBoxed:
        break;
    }
    static const auto boxed = c10::BoxedKernel::makeFromFunction<&observe_op>();
    return c10::impl::BoxedKernelWrapper<Return(Arguments...)>::call(
        boxed, op(), keys, std::forward<Arguments>(arguments)...);
  }

 private:
  static const c10::OperatorHandle& op() {
    static const c10::OperatorHandle handle =
        c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
    return handle;
  }

  static const OpInfo& info() {
    static const OpInfo& info = op_info(op());
    return info;
  }

  template <class Visitor>
  static void show_arguments(Visitor& visitor, const std::remove_cvref_t<Arguments>&... arguments) {
    [[maybe_unused]] const uint8_t* is_write = info().is_write.data();
    (show(visitor, arguments, *is_write++ != 0), ...);
  }

  static Return run_nested(ActiveSession& session, ObservedThread& thread, c10::DispatchKeySet keys,
                           Arguments... arguments) {
    NestedPins pins(session, thread, info());
    show_arguments(pins, arguments...);
    const c10::impl::ExcludeDispatchKeyGuard inside(
        unobserved_inside(info(), keys, pins.may_have_tangents()));
    return Op::redispatch(below_observer(keys), std::forward<Arguments>(arguments)...);
  }

  static Return run_inside(const OutermostOp& outermost, bool may_have_tangents,
                           c10::DispatchKeySet keys, Arguments... arguments) {
    const c10::impl::ExcludeDispatchKeyGuard inside(
        outermost.is_captured() ? c10::DispatchKeySet()
                                : unobserved_inside(info(), keys, may_have_tangents));
    return Op::redispatch(below_observer(keys), std::forward<Arguments>(arguments)...);
  }

  static Return run_outermost(ActiveSession& session, ObservedThread& thread,
                              c10::DispatchKeySet keys, Arguments... arguments) {
    OutermostOp outermost(session, thread, info());
    thread.is_typed = !info().has_python_kernel.load(std::memory_order_relaxed);
    StorageWalk walk = outermost.arguments();
    show_arguments(walk, arguments...);
    outermost.begin(walk.signature());
    if (outermost.wants_capture())
      outermost.begin_capture(op(), c10::impl::boxArgs<Arguments...>(arguments...),
                              /*has_wrappers=*/false);
    Return result = run_inside(outermost, walk.may_have_tangents(), keys,
                               std::forward<Arguments>(arguments)...);
    StorageWalk results = outermost.results();
    show(results, result, true);
    torch::jit::Stack captured;
    if (outermost.is_captured()) push_results(captured, result);
    outermost.finish(captured);
    return result;
  }
};

}  // namespace teraio::pytorch
