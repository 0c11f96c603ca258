// Copies that wait for compute beside copies that do not.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>

#include "base/units.h"
#include "device/cuda_device.h"
#include "testing/no_silent_skips.h"

namespace teraio::device {
namespace {

constexpr int64_t kSizeBytes = 64 * kKiB;

class CudaCopiesTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto facts = inspect_cuda_device(0);
    if (!facts.ok()) GTEST_SKIP() << testing::kNotApplicable << facts.status().message();
    if (facts->model == "Emulated GPU" && std::getenv("TERAIO_EMULATED_CUDA_UNITS") == nullptr)
      GTEST_SKIP() << testing::kNotApplicable
                   << "without units, an emulated GPU does one thing at a time";
    ASSERT_EQ(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), cudaSuccess);
    auto device = make_cuda_device(
        {.budget_bytes = 16 * kMiB, .compute_stream = [this] { return compute_; }});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
    ASSERT_EQ(cudaMallocHost(&host_, 2 * kSizeBytes), cudaSuccess);
    memory_ = device_->allocate(2 * kSizeBytes);
    ASSERT_TRUE(device_->wait(device_->record()).ok());
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    open_gate();
    device_->release(memory_);
    device_.reset();
    cudaFreeHost(host_);
    cudaStreamDestroy(compute_);
  }

  // Compute does nothing more until open_gate().
  void close_gate() {
    ASSERT_EQ(
        cudaLaunchHostFunc(
            compute_, [](void* self) { static_cast<CudaCopiesTest*>(self)->is_open_.wait(false); },
            this),
        cudaSuccess);
  }
  void open_gate() {
    is_open_ = true;
    is_open_.notify_all();
  }
  // Copies one of two parts.
  Event copy(int64_t part, Event after) {
    std::byte* device = memory_ + part * kSizeBytes;
    std::byte* host = static_cast<std::byte*>(host_) + part * kSizeBytes;
    const bool is_to_host = GetParam();
    const Result<Event> end = is_to_host ? device_->copy_to_host(host, device, kSizeBytes, after)
                                         : device_->copy_from_host(device, host, kSizeBytes, after);
    EXPECT_TRUE(end.ok()) << end.status().message();
    return end.ok() ? *end : Event();
  }

  std::atomic<bool> is_open_ = false;
  cudaStream_t compute_ = nullptr;
  std::unique_ptr<Device> device_;
  std::byte* memory_ = nullptr;
  void* host_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Directions, CudaCopiesTest, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ToTheHost" : "FromTheHost");
});

// Two tiers, of which one copies what compute has yet to write.
TEST_P(CudaCopiesTest, AReadyCopyIsNotBehindOneThatWaitsForCompute) {
  const Event now = device_->record();
  close_gate();
  const Event later = device_->record();
  const Event waiting = copy(0, later);
  const Event ready = copy(1, now);
  std::future<Status> end = std::async(std::launch::async, [&] { return device_->wait(ready); });
  // It would not end before the gate opens.
  EXPECT_EQ(end.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_FALSE(device_->has_passed(waiting)) << "compute has not got there";
  open_gate();
  EXPECT_TRUE(end.get().ok());
  EXPECT_TRUE(device_->wait(waiting).ok());
}

}  // namespace
}  // namespace teraio::device
