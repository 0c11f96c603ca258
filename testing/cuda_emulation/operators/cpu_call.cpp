#include "testing/cuda_emulation/operators/cpu_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

namespace teraio::testing::emulated_cuda {
namespace {

c10::DispatchKeySet keys_above_kernels() {
  using Key = c10::DispatchKey;
  return c10::autograd_dispatch_keyset |
         c10::DispatchKeySet({Key::ADInplaceOrView, Key::AutocastCPU, Key::AutocastCUDA,
                              Key::Python, Key::PythonTLSSnapshot});
}

// The end of a call that is waited for. It outlives a caller that has been told of a failed device.
struct End {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  std::exception_ptr failure;

  void note(std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    failure = std::move(error);
    is_over = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return is_over; });
    if (failure != nullptr) std::rethrow_exception(failure);
  }
};

}  // namespace

// Factories need BackendSelect, which a bare state of the dispatcher has not.
BelowAutograd::BelowAutograd()
    : keys_(c10::DispatchKeySet(c10::DispatchKey::BackendSelect), keys_above_kernels()) {}

void run_in_order(c10::cuda::CUDAStream stream, const char* name, std::function<void()> run) {
  C10_CUDA_CHECK(static_cast<cudaError_t>(launch(stream.stream(), name, std::move(run))));
}

void run_and_wait(c10::cuda::CUDAStream stream, const char* name, std::function<void()> run) {
  auto end = std::make_shared<End>();
  const auto run_and_note = [end, run = std::move(run)] {
    try {
      run();
      end->note(nullptr);
    } catch (...) {
      end->note(std::current_exception());
    }
  };
  run_in_order(stream, name, run_and_note);
  C10_CUDA_CHECK(cudaStreamSynchronize(stream.stream()));
  end->wait();
}

at::Generator cpu_generator(const std::optional<at::Generator>& given, c10::Device device) {
  if (given && given->device().is_cpu()) return *given;
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      given, at::cuda::detail::getDefaultCUDAGenerator(device.index()));
  const std::lock_guard lock(generator->mutex_);
  const auto [philox_seed, offset] = generator->philox_engine_inputs(4);
  const uint64_t seed = philox_seed * 0x9E3779B97F4A7C15ull + offset * 0xBF58476D1CE4E5B9ull;
  return at::detail::createCPUGenerator(seed ^ (seed >> 31));
}

}  // namespace teraio::testing::emulated_cuda
