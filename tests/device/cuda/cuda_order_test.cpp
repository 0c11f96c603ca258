// The order of work on a GPU: compute on a stream of the test, copies on those of the device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/cuda_device.h"
#include "device/op_timer.h"
#include "testing/no_silent_skips.h"

namespace teraio::device {
namespace {

constexpr int64_t kBlockBytes = 8 * kMiB;

class CudaOrderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto facts = inspect_cuda_device(0);
    if (!facts.ok()) GTEST_SKIP() << testing::kNotApplicable << facts.status().message();
    fills_when_busy_ = facts->model == "Emulated GPU" ? 20 : 200;
    ASSERT_EQ(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), cudaSuccess);
    auto device = make_cuda_device(
        {.budget_bytes = 16 * kBlockBytes, .compute_stream = [this] { return compute_; }});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = std::move(*device);
  }
  void TearDown() override {
    device_.reset();
    if (compute_ != nullptr) cudaStreamDestroy(compute_);
  }

  // Returns memory that is ready for any stream.
  std::byte* allocate() {
    std::byte* memory = device_->allocate(kBlockBytes);
    EXPECT_TRUE(device_->wait(device_->record()).ok());
    return memory;
  }
  void compute_fills(std::byte* memory, int value) {
    ASSERT_EQ(cudaMemsetAsync(memory, value, kBlockBytes, compute_), cudaSuccess);
  }
  // Keeps compute busy for a tenth of a second and more, so that work that fails to wait for it is
  // detected.
  void compute_is_busy() {
    static void* scratch = nullptr;
    if (scratch == nullptr) ASSERT_EQ(cudaMalloc(&scratch, 256 * kMiB), cudaSuccess);
    for (int i = 0; i < fills_when_busy_; ++i) cudaMemsetAsync(scratch, i, 256 * kMiB, compute_);
  }
  static bool is_filled(const std::vector<std::byte>& bytes, int value) {
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
  }

  int fills_when_busy_ = 0;
  cudaStream_t compute_ = nullptr;
  std::unique_ptr<Device> device_;
};

// On the default stream, which PyTorch uses: its handle means that of the current GPU.
TEST_F(CudaOrderTest, OpsOfThreadsOnAnotherGpuAreTimed) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << testing::kNotApplicable << "one GPU";
  ASSERT_EQ(cudaStreamDestroy(std::exchange(compute_, nullptr)), cudaSuccess);
  std::byte* memory = allocate();
  OpTimer* timer = device_->op_timer();
  timer->start();
  compute_fills(memory, 7);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  timer->end_op();
  const Result<std::vector<int64_t>> durations_ns = timer->durations_ns();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_TRUE(durations_ns.ok()) << durations_ns.status().message();
  EXPECT_EQ(durations_ns->size(), 1);
  device_->release(memory);
}

TEST_F(CudaOrderTest, ACopyOutWaitsForCompute) {
  std::byte* memory = allocate();
  std::vector<std::byte> host(kBlockBytes);
  ASSERT_TRUE(device_->host_pinning()->pin(host.data(), kBlockBytes).ok());
  compute_is_busy();
  compute_fills(memory, 7);
  const Result<Event> out =
      device_->copy_to_host(host.data(), memory, kBlockBytes, device_->record());
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_FALSE(device_->has_passed(*out)) << "compute is busy";
  ASSERT_TRUE(device_->wait(*out).ok());
  EXPECT_TRUE(is_filled(host, 7));
  device_->host_pinning()->unpin(host.data());
  device_->release(memory);
}

TEST_F(CudaOrderTest, ComputeWaitsForACopyInAndTheCallerDoesNot) {
  std::byte* memory = allocate();
  std::vector<std::byte> host(kBlockBytes, std::byte{5});
  std::vector<std::byte> seen(kBlockBytes);
  ASSERT_TRUE(device_->host_pinning()->pin(host.data(), kBlockBytes).ok());
  compute_is_busy();
  compute_fills(memory, 1);
  const Result<Event> in =
      device_->copy_from_host(memory, host.data(), kBlockBytes, device_->record());
  ASSERT_TRUE(in.ok());
  ASSERT_TRUE(device_->order_after(*in).ok());
  ASSERT_EQ(cudaMemcpyAsync(seen.data(), memory, kBlockBytes, cudaMemcpyDeviceToHost, compute_),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(compute_), cudaSuccess);
  EXPECT_TRUE(is_filled(seen, 5));
  device_->host_pinning()->unpin(host.data());
  device_->release(memory);
}

// The copies follow compute that is enqueued, and what is enqueued later follows them.
TEST_F(CudaOrderTest, BlocksMoveInTheOrderOfCompute) {
  int tenants[16];
  std::vector<std::byte*> blocks;
  for (int& tenant : tenants)
    blocks.push_back(device_->allocate(kBlockBytes, Effort::kUsual, {&tenant, kNever}));
  ASSERT_EQ(device_->allocate(kBlockBytes), nullptr);
  compute_is_busy();
  for (int i = 0; i < 16; ++i) compute_fills(blocks[i], i);
  for (int i = 0; i < 16; i += 2) device_->release(blocks[i]);
  ASSERT_EQ(device_->allocate(4 * kBlockBytes), nullptr);
  const auto moves = device_->find_room(
      4 * kBlockBytes, [](void*) { return true; }, kNoBudget);
  ASSERT_FALSE(moves.empty());
  device_->relocate(moves);
  for (const Relocation& move : moves) {
    ASSERT_TRUE(device_->move_within(move.to, move.from, move.size_bytes).ok());
    blocks[static_cast<int*>(move.tenant) - tenants] = move.to;
  }
  std::byte* large = device_->allocate(4 * kBlockBytes);
  ASSERT_NE(large, nullptr);
  for (int i = 0; i < 4; ++i) compute_fills(large + i * kBlockBytes, 99);
  EXPECT_EQ(cudaStreamQuery(compute_), cudaErrorNotReady) << "nothing has waited";
  for (int i = 1; i < 16; i += 2) {
    std::vector<std::byte> seen(kBlockBytes);
    ASSERT_EQ(
        cudaMemcpyAsync(seen.data(), blocks[i], kBlockBytes, cudaMemcpyDeviceToHost, compute_),
        cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(compute_), cudaSuccess);
    EXPECT_TRUE(is_filled(seen, i)) << i;
    device_->release(blocks[i]);
  }
  device_->release(large);
}

TEST_F(CudaOrderTest, ADeviceThatGoesWaitsForCompute) {
  std::byte* memory = allocate();
  compute_is_busy();
  compute_fills(memory, 3);
  device_->release(memory);
  device_.reset();
  EXPECT_EQ(cudaStreamSynchronize(compute_), cudaSuccess);
}

TEST_F(CudaOrderTest, AReleasedBlockStaysWhileAnotherStreamUsesIt) {
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  std::byte* memory = device_->allocate(16 * kBlockBytes);
  ASSERT_NE(memory, nullptr);
  ASSERT_TRUE(device_->wait(device_->record()).ok());
  std::swap(compute_, other);
  compute_is_busy();
  compute_fills(memory, 1);
  std::swap(compute_, other);
  device_->record_use(memory, other);
  device_->release(memory);
  EXPECT_EQ(device_->allocated_bytes(), 0);
  EXPECT_EQ(device_->allocate(16 * kBlockBytes), nullptr);
  memory = device_->allocate(16 * kBlockBytes, Effort::kUtmost);
  EXPECT_NE(memory, nullptr) << "waits for the other stream";
  EXPECT_EQ(cudaStreamQuery(other), cudaSuccess);
  device_->release(memory);
  cudaStreamDestroy(other);
}

// More than a piece, of which pages exist only where they are touched.
class LargePinnedTest : public CudaOrderTest {
 protected:
  static constexpr int64_t kRangeBytes = kGiB + 2 * kBlockBytes;

  void SetUp() override {
    CudaOrderTest::SetUp();
    if (device_ == nullptr) return;
    void* range = mmap(nullptr, kRangeBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(range, MAP_FAILED);
    range_ = static_cast<std::byte*>(range);
    memory_ = allocate();
  }
  void TearDown() override {
    if (memory_ != nullptr) device_->release(memory_);
    if (range_ != nullptr) munmap(range_, kRangeBytes);
    CudaOrderTest::TearDown();
  }
  // Half of the bytes are in the first piece, half in the second.
  std::byte* at_the_border() const { return range_ + kGiB - kBlockBytes / 2; }
  void expect_round_trip() {
    std::fill_n(at_the_border(), kBlockBytes, std::byte{9});
    const Result<Event> in = device_->copy_from_host(memory_, at_the_border(), kBlockBytes, {});
    ASSERT_TRUE(in.ok() && device_->wait(*in).ok());
    std::fill_n(at_the_border(), kBlockBytes, std::byte{0});
    const Result<Event> out = device_->copy_to_host(at_the_border(), memory_, kBlockBytes, *in);
    ASSERT_TRUE(out.ok() && device_->wait(*out).ok());
    EXPECT_TRUE(std::all_of(at_the_border(), at_the_border() + kBlockBytes,
                            [](std::byte byte) { return byte == std::byte{9}; }));
  }

  std::byte* range_ = nullptr;
  std::byte* memory_ = nullptr;
};

TEST_F(LargePinnedTest, ACopyMayGoFromOnePieceToTheNext) {
  ASSERT_TRUE(device_->host_pinning()->pin(range_, kRangeBytes).ok());
  expect_round_trip();
  device_->host_pinning()->unpin(range_);
  EXPECT_EQ(cudaHostUnregister(range_ + kGiB), cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
}

TEST_F(LargePinnedTest, APieceThatIsRefusedLeavesTheOthersPinned) {
  std::byte* taken = range_ + kGiB + kBlockBytes;  // in the second piece
  ASSERT_EQ(cudaHostRegister(taken, kPageBytes, cudaHostRegisterDefault), cudaSuccess);
  const Status status = device_->host_pinning()->pin(range_, kRangeBytes);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("of which 1.07 GB are pinned"), std::string::npos)
      << status.message();
  EXPECT_EQ(cudaHostRegister(range_, kPageBytes, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  cudaGetLastError();
  expect_round_trip();
  device_->host_pinning()->unpin(range_);
  EXPECT_EQ(cudaHostRegister(range_, kPageBytes, cudaHostRegisterDefault), cudaSuccess);
  cudaHostUnregister(range_);
  cudaHostUnregister(taken);
}

TEST_F(CudaOrderTest, AnyThreadMayCopyAndWait) {
  std::vector<std::thread> threads;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(allocate());
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::byte> from(kBlockBytes, static_cast<std::byte>(i));
      std::vector<std::byte> to(kBlockBytes);
      for (int round = 0; round < 20; ++round) {
        const Result<Event> in = device_->copy_from_host(blocks[i], from.data(), kBlockBytes, {});
        const Result<Event> out = device_->copy_to_host(to.data(), blocks[i], kBlockBytes, *in);
        EXPECT_TRUE(device_->wait(*out).ok());
        EXPECT_EQ(to, from);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::byte* block : blocks) device_->release(block);
}

TEST_F(CudaOrderTest, ACallLeavesTheThreadsGpuAsItWas) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << testing::kNotApplicable << "the machine has one GPU";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const auto is_as_it_was = [] {
    int current = -1;
    return cudaGetDevice(&current) == cudaSuccess && current == 1;
  };
  std::vector<std::byte> host(kBlockBytes);
  std::byte* memory = device_->allocate(kBlockBytes);
  EXPECT_TRUE(is_as_it_was()) << "allocate";
  EXPECT_TRUE(device_->wait(device_->record()).ok());
  EXPECT_TRUE(is_as_it_was()) << "record and wait";
  EXPECT_TRUE(device_->host_pinning()->pin(host.data(), kBlockBytes).ok());
  EXPECT_TRUE(is_as_it_was()) << "pin";
  const Result<Event> in = device_->copy_from_host(memory, host.data(), kBlockBytes, {});
  EXPECT_TRUE(in.ok() && device_->order_after(*in).ok() && device_->wait(*in).ok());
  EXPECT_TRUE(is_as_it_was()) << "a copy";
  device_->host_pinning()->unpin(host.data());
  device_->set_budget_bytes(8 * kBlockBytes);
  device_->release(memory);
  EXPECT_TRUE(inspect_cuda_device(0).ok());
  EXPECT_TRUE(is_as_it_was()) << "release, and the others";
  device_.reset();
  EXPECT_TRUE(is_as_it_was()) << "the end";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

// Compute and copies in both directions over a few blocks, compared with a model.
TEST_F(CudaOrderTest, RandomWorkSeesWhatWasLastWritten) {
  std::mt19937 random(1);
  std::vector<std::byte*> blocks;
  std::vector<int> values(4, 0);
  std::vector<std::vector<std::byte>> hosts(4, std::vector<std::byte>(kBlockBytes));
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(allocate());
    compute_fills(blocks[i], 0);
    ASSERT_TRUE(device_->host_pinning()->pin(hosts[i].data(), kBlockBytes).ok());
  }
  for (int step = 0; step < 300; ++step) {
    const size_t i = random() % 4;
    if (random() % 2 == 0) {
      values[i] = static_cast<int>(random() % 256);
      compute_fills(blocks[i], values[i]);
      continue;
    }
    const Result<Event> out =
        device_->copy_to_host(hosts[i].data(), blocks[i], kBlockBytes, device_->record());
    ASSERT_TRUE(out.ok());
    ASSERT_TRUE(device_->order_after(*out).ok());
    compute_fills(blocks[i], 255 - values[i]);
    const Result<Event> in =
        device_->copy_from_host(blocks[i], hosts[i].data(), kBlockBytes, device_->record());
    ASSERT_TRUE(in.ok());
    ASSERT_TRUE(device_->order_after(*in).ok());
    ASSERT_TRUE(device_->wait(*out).ok());
    EXPECT_TRUE(is_filled(hosts[i], values[i])) << "step " << step;
    ASSERT_TRUE(device_->wait(*in).ok());  // the next copy reuses the host's bytes
  }
  for (int i = 0; i < 4; ++i) {
    device_->host_pinning()->unpin(hosts[i].data());
    device_->release(blocks[i]);
  }
}

}  // namespace
}  // namespace teraio::device
