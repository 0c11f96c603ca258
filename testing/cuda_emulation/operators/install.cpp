// Python: torch.ops.teraio_emulated_cuda.install() replaces every CUDA kernel of ATen, once.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "testing/cuda_emulation/operators/emulate.h"
#include "testing/cuda_emulation/operators/op_facts.h"

namespace teraio::testing::emulated_cuda {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// Operators that make views or memory, or ask the runtime, and launch nothing.
bool is_kept(const c10::FunctionSchema& schema) {
  static const auto* kept = new std::set<std::string>{"aten::empty.memory_format",
                                                      "aten::empty_strided",
                                                      "aten::record_stream",
                                                      "aten::resize_",
                                                      "aten::copy_",
                                                      "aten::is_set_to",
                                                      "aten::_local_scalar_dense",
                                                      "aten::_pin_memory",
                                                      "aten::is_pinned",
                                                      "aten::_cudnn_init_dropout_state",
                                                      "aten::_fused_sdp_choice"};
  if (kept->count(full_name(schema)) > 0 || schema.name() == "aten::set_") return true;
  for (const c10::Argument& result : schema.returns())  // views
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  return false;
}

bool is_replaced(const c10::OperatorName& name) {
  if (name.name.rfind("aten::", 0) != 0) return false;
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  return op && op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) && !is_kept(op->schema());
}

// Attention asks these settings for its kernel, not an operator.
void leave_out_other_libraries() {
  at::globalContext().setUserEnabledCuDNN(false);
  at::globalContext().setSDPUseFlash(false);
  at::globalContext().setSDPUseCuDNN(false);
}

// Poisons what the caching allocator gives, in the order of the stream that it is given to: whoever
// uses it still, without record_stream or a wait, shows. It must not be poisoned when it is freed,
// because another stream may read it until its own stream uses it again.
void poison(const caching::TraceEntry& entry) {
  if (entry.action_ != caching::TraceEntry::ALLOC) return;
  cudaMemsetAsync(reinterpret_cast<void*>(entry.addr_), 0xFF, entry.size_,
                  static_cast<cudaStream_t>(entry.stream_));
}

// Swallows the dispatcher's warning that a kernel is replaced.
struct NoWarnings final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

int64_t replace_all() {
  static auto* no_warnings = new NoWarnings();
  const c10::WarningUtils::WarningHandlerGuard guard(no_warnings);
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  int64_t replaced_count = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!is_replaced(name)) continue;
    const std::string short_name = name.name.substr(std::strlen("aten::"));
    const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
    library->impl((short_name + overload).c_str(),
                  torch::CppFunction::makeFromBoxedFunction<&emulate>());
    ++replaced_count;
  }
  library->impl("copy_", torch::CppFunction::makeFromBoxedFunction<&emulate_copy>());
  return replaced_count;
}

// Returns how many kernels were replaced.
int64_t install() {
  static int64_t replaced_count = 0;
  if (replaced_count > 0) return replaced_count;
  leave_out_other_libraries();
  at::globalContext().lazyInitDevice(c10::kCUDA);
  replaced_count = replace_all();
  const char* poisons = std::getenv("TERAIO_EMULATED_CUDA_POISON");
  if (poisons != nullptr && std::string(poisons) == "1")
    caching::attachAllocatorTraceTracker(&poison);
  return replaced_count;
}

TORCH_LIBRARY(teraio_emulated_cuda, library) { library.def("install() -> int", &install); }

}  // namespace
}  // namespace teraio::testing::emulated_cuda
