// How many calls of CUDA a transfer between a drive and a GPU takes for its bytes.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/units.h"
#include "device/cuda_device.h"
#include "storage/ssd_store.h"
#include "storage/store_session.h"
#include "testing/emulated_calls.h"
#include "testing/no_silent_skips.h"
#include "testing/scratch_directory.h"

namespace teraio::storage {
namespace {

using testing::ScratchDirectory;
using testing::StoreSession;

constexpr int64_t kMovedBytes = 64 * kMiB;
constexpr const char* kCalls[] = {"cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord",
                                  "cudaEventQuery", "cudaEventSynchronize"};

class CudaCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (calls_ == nullptr)
      GTEST_SKIP() << testing::kNotApplicable << "only the emulated GPU counts calls";
    auto device = device::make_cuda_device({.budget_bytes = 2 * kMovedBytes});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
    memory_ = device_->allocate(kMovedBytes);
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    session_.reset();
    device_->release(memory_);
  }

  void open(int64_t bytes_per_second) {
    SsdStoreOptions options;
    options.capacity_bytes = kMovedBytes;
    options.gpu_direct = io::GpuDirect::kOff;
    options.device = device_.get();
    auto store = open_ssd_store({{directory_.path(), {bytes_per_second, bytes_per_second}}},
                                options, clock_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    session_ = std::make_unique<StoreSession>(std::move(*store));
    extent_ = session_->reserve(kMovedBytes);
  }
  void transfer(io::Direction direction) {
    Transfer transfer;
    transfer.direction = direction;
    transfer.extent = extent_;
    transfer.memory = memory_;
    transfer.ready = device_->record();
    ASSERT_TRUE(session_->wait(session_->submit(std::move(transfer))).status.ok());
  }
  // Per MiB of a write and a read.
  double calls_per_mib() {
    const uint64_t before = count();
    transfer(io::Direction::kWrite);
    transfer(io::Direction::kRead);
    return static_cast<double>(count() - before) / (2.0 * kMovedBytes / kMiB);
  }
  uint64_t count() const {
    uint64_t sum = 0;
    for (const char* name : kCalls) sum += calls_(name);
    return sum;
  }

  const testing::EmulatedCalls calls_ = testing::emulated_calls();
  ScratchDirectory directory_;
  SteadyClock clock_;
  std::unique_ptr<device::Device> device_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<StoreSession> session_;
  Extent extent_;
};

// A copy, what it waits for, its event, and the wait for it. Whether events have passed is asked
// only until there are enough for all requests in flight.
TEST_F(CudaCallsTest, ARequestTakesFewCalls) {
  open(int64_t{1'000'000'000});
  EXPECT_LE(calls_per_mib(), 4.25);
}

// At 7 GB/s a request of 4 MiB takes as long as one of 1 MiB on a slow drive.
TEST_F(CudaCallsTest, AFastDriveTakesFewerForItsBytes) {
  open(int64_t{7'000'000'000});
  EXPECT_LE(calls_per_mib(), 1.25);
}

}  // namespace
}  // namespace teraio::storage
