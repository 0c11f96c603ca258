#include "escapes/ddp_reducer.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/c10d/python_comm_hook.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "op_error.h"
#include "storages/active_session.h"
#include "storages/adoption.h"
#include "storages/forked_child.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::variable_list;

// c10d::Reducer has no accessor for its communication hook. An explicit instantiation may name a
// private member.
template <auto Member>
struct CommHookAccess {
  friend const std::unique_ptr<c10d::CommHookInterface>& comm_hook_of(
      const c10d::Reducer& reducer) {
    return reducer.*Member;
  }
};
const std::unique_ptr<c10d::CommHookInterface>& comm_hook_of(const c10d::Reducer& reducer);
template struct CommHookAccess<&c10d::Reducer::comm_hook_>;

// Returns whether the communication hook is one that PyTorch implements in C++. Such a hook changes
// the bucket on the library's thread, which is not observed.
bool has_native_hook(const c10d::Reducer& reducer) {
  const c10d::CommHookInterface* hook = comm_hook_of(reducer).get();
  return hook != nullptr && dynamic_cast<const c10d::PythonCommHook*>(hook) == nullptr;
}

// Returns the session in use if it offloads tensors, otherwise null.
ActiveSession* moving_session(const SessionUse& use) {
  ActiveSession* session = use.get();
  return session == nullptr || session->is_dry || is_forked_child() ? nullptr : session;
}

void add_storage(const at::Tensor& tensor, std::vector<WeakStorage>& storages) {
  if (tensor.defined() && tensor.has_storage())
    storages.push_back(tensor.storage().getWeakStorageImpl());
}

// Pins the tensor permanently, because code that is not observed uses its address.
void pin(ActiveSession& session, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  TensorHandle* handle = handle_of(storage);
  if (handle == nullptr) handle = adopt(session, storage);
  if (handle == nullptr) return;
  const StorageReferenceGuard guard;
  remember_storage(*handle, storage);
  if (const Status status = handle->runtime->pin_permanently(handle->tensor); !status.ok())
    throw_status(status, "");
}

}  // namespace

std::vector<WeakStorage> compared_by(const c10d::Reducer& reducer) {
  std::vector<WeakStorage> storages;
  for (const c10d::GradBucket& bucket : reducer.get_grad_buckets(/*return_zero_tensors=*/false)) {
    add_storage(bucket.getBuffer(), storages);
    for (const at::Tensor& parameter : bucket.getParameters())
      add_storage(parameter.grad(), storages);
  }
  return storages;
}

std::unique_ptr<AliasCheckScope> compare_owners(const std::vector<WeakStorage>& storages) {
  const SessionUse use;
  const ActiveSession* session = moving_session(use);
  if (session == nullptr) return nullptr;
  return std::make_unique<AliasCheckScope>(session->runtime, storages);
}

// The state that the hooks share. Autograd's threads read it, so a lock guards it; at_end_ is used
// only by the callbacks at the end of a backward pass.
class ReducerHooks::Shared {
 public:
  void expect(std::vector<WeakStorage> compared, std::vector<WeakStorage> buckets) {
    const std::lock_guard lock(mutex_);
    compared_ = std::move(compared);
    buckets_ = std::move(buckets);
    is_first_ = true;
  }

  // Returns the storages that the reducer compares when `gradient` has been accumulated. At the
  // first gradient of a backward pass the reducer also handles the parameters that the pass does
  // not use, so the result includes all gradients.
  std::vector<WeakStorage> compared_with(const at::Tensor& gradient) {
    const std::lock_guard lock(mutex_);
    std::vector<WeakStorage> storages = buckets_;
    if (is_first_) storages.insert(storages.end(), compared_.begin(), compared_.end());
    is_first_ = false;
    add_storage(gradient, storages);
    return storages;
  }

  bool is_first() {
    const std::lock_guard lock(mutex_);
    return is_first_;
  }

  // Allows comparisons with the buckets at the end of the backward pass, when the reducer copies
  // its results back in a callback. Autograd runs callbacks in the order in which they were queued:
  // this one begins the scope, the reducer's comes next, and the one that this one queues ends the
  // scope.
  static void compare_at_end(const std::shared_ptr<Shared>& shared) {
    torch::autograd::Engine::get_default_engine().queue_callback([shared] {
      shared->at_end_ = compare_owners(shared->buckets());
      torch::autograd::Engine::get_default_engine().queue_callback(
          [shared] { shared->at_end_.reset(); });
    });
  }

 private:
  std::vector<WeakStorage> buckets() {
    const std::lock_guard lock(mutex_);
    return buckets_;
  }

  std::mutex mutex_;
  std::vector<WeakStorage> compared_;
  std::vector<WeakStorage> buckets_;
  bool is_first_ = false;
  std::unique_ptr<AliasCheckScope> at_end_;
};

namespace {

using Comparison = std::shared_ptr<std::unique_ptr<AliasCheckScope>>;

// Compiled autograd runs without the reducer's hooks and does not need these: they have no
// arguments for it.
class ReducerHook : public torch::autograd::FunctionPostHook {
 public:
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}
};

class BeforeReducer final : public ReducerHook {
 public:
  BeforeReducer(const AccumulateGrad& node, std::shared_ptr<ReducerHooks::Shared> shared,
                Comparison comparison)
      : node_(node), shared_(std::move(shared)), comparison_(std::move(comparison)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    const SessionUse use;
    if (moving_session(use) == nullptr) return outputs;
    if (shared_->is_first()) ReducerHooks::Shared::compare_at_end(shared_);
    *comparison_ = compare_owners(shared_->compared_with(node_.variable.grad()));
    return outputs;
  }

 private:
  const AccumulateGrad& node_;  // owns this hook
  std::shared_ptr<ReducerHooks::Shared> shared_;
  Comparison comparison_;
};

class AfterReducer final : public ReducerHook {
 public:
  explicit AfterReducer(Comparison comparison) : comparison_(std::move(comparison)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    comparison_->reset();
    return outputs;
  }

 private:
  Comparison comparison_;
};

void hook(const at::Tensor& parameter, const std::shared_ptr<ReducerHooks::Shared>& shared) {
  const auto node = torch::autograd::impl::try_get_grad_accumulator(parameter);
  const auto* accumulator = dynamic_cast<const AccumulateGrad*>(node.get());
  if (accumulator == nullptr) return;
  const auto comparison = std::make_shared<std::unique_ptr<AliasCheckScope>>();
  auto& hooks = node->post_hooks();
  hooks.insert(hooks.begin(), std::make_unique<BeforeReducer>(*accumulator, shared, comparison));
  hooks.push_back(std::make_unique<AfterReducer>(comparison));
}

}  // namespace

void ReducerHooks::expect_backward(const c10d::Reducer& reducer) {
  const SessionUse use;
  ActiveSession* session = moving_session(use);
  if (session == nullptr) return;
  const bool is_new = shared_ == nullptr;
  if (is_new) shared_ = std::make_shared<Shared>();
  const bool are_pinned = has_native_hook(reducer);
  std::vector<WeakStorage> buckets;
  for (const c10d::GradBucket& bucket : reducer.get_grad_buckets(/*return_zero_tensors=*/false)) {
    if (are_pinned) pin(*session, bucket.getBuffer());
    add_storage(bucket.getBuffer(), buckets);
    if (!is_new) continue;
    for (const at::Tensor& parameter : bucket.getParameters()) hook(parameter, shared_);
  }
  shared_->expect(compared_by(reducer), std::move(buckets));
}

}  // namespace teraio::pytorch
