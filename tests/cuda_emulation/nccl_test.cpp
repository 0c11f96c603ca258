// The emulated NCCL, with all ranks in this process. What PyTorch does with it is tested in Python
// (tests/python/programs/emulated_collectives.py).
#include <nccl.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cuda_emulation/machine_test.h"

namespace teraio::testing::emulated_cuda {
namespace {

using Numbers = std::vector<float>;

class NcclTest : public MachineTest {
 protected:
  struct Rank {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    int device = 0;
  };

  // Ranks on devices 0, 1, 0, ... with a stream each.
  void make_ranks(int count) {
    std::vector<int> devices;
    for (int rank = 0; rank < count; ++rank) devices.push_back(rank % 2);
    std::vector<ncclComm_t> comms(count);
    ASSERT_EQ(ncclCommInitAll(comms.data(), count, devices.data()), ncclSuccess);
    for (int rank = 0; rank < count; ++rank) {
      cudaSetDevice(devices[rank]);
      ranks_.push_back({comms[rank], make_stream(), devices[rank]});
    }
    cudaSetDevice(0);
  }

  void TearDown() override {
    for (const Rank& rank : ranks_)
      if (rank.comm != nullptr) EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess);
    for (float* memory : memory_) cudaFree(memory);
    MachineTest::TearDown();
  }

  float* on_device(int rank, const Numbers& numbers) {
    cudaSetDevice(ranks_[rank].device);
    float* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, numbers.size() * sizeof(float)), cudaSuccess);
    memory_.push_back(memory);
    EXPECT_EQ(cudaMemcpy(memory, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    cudaSetDevice(0);
    return memory;
  }

  // The results, when the rank's stream is done.
  Numbers result(int rank, const float* memory, size_t count) {
    EXPECT_EQ(cudaStreamSynchronize(ranks_[rank].stream), cudaSuccess);
    Numbers numbers(count);
    cudaMemcpy(numbers.data(), memory, count * sizeof(float), cudaMemcpyDefault);
    return numbers;
  }

  ncclResult_t all_reduce(int rank, float* numbers, size_t count, ncclRedOp_t op = ncclSum) {
    return ncclAllReduce(numbers, numbers, count, ncclFloat32, op, ranks_[rank].comm,
                         ranks_[rank].stream);
  }

  // Waits for an asynchronous error of the rank.
  ncclResult_t error_of(int rank) const {
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) {
      EXPECT_EQ(ncclCommGetAsyncError(ranks_[rank].comm, &error), ncclSuccess);
      cudaStreamQuery(ranks_[rank].stream);  // lazy execution goes on when a thread looks
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return error;
  }

  void abort(int rank) {
    EXPECT_EQ(ncclCommAbort(ranks_[rank].comm), ncclSuccess);
    ranks_[rank].comm = nullptr;
  }

  std::vector<Rank> ranks_;
  std::vector<float*> memory_;
};

TEST_F(NcclTest, OtherStreamsGoOnWhileOneWaitsForARank) {
  make_ranks(2);
  float* first = on_device(0, {1});
  float* second = on_device(1, {2});
  ASSERT_EQ(all_reduce(0, first, 1), ncclSuccess);
  const cudaStream_t other = make_stream();
  bool has_run = false;
  run_on(other, [&] { has_run = true; });
  ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_TRUE(has_run);
  EXPECT_EQ(cudaStreamQuery(ranks_[0].stream), cudaErrorNotReady);
  ASSERT_EQ(all_reduce(1, second, 1), ncclSuccess);
  EXPECT_EQ(result(0, first, 1), Numbers{3});
  EXPECT_EQ(result(1, second, 1), Numbers{3});
}

TEST_F(NcclTest, RanksThatDisagreeAreTold) {
  make_ranks(2);
  float* first = on_device(0, {1, 2});
  float* second = on_device(1, {3, 4});
  ASSERT_EQ(all_reduce(0, first, 2), ncclSuccess);
  ASSERT_EQ(all_reduce(1, second, 2, ncclMax), ncclSuccess);
  EXPECT_EQ(error_of(0), ncclInvalidUsage);
  EXPECT_EQ(error_of(1), ncclInvalidUsage);
  const std::string text = ncclGetLastError(nullptr);  // of the rank that has noticed last
  EXPECT_NE(text.find("waits for (kind 0, type 7, reduction"), std::string::npos) << text;
  EXPECT_EQ(all_reduce(0, first, 2), ncclInvalidUsage);
  abort(0);
  abort(1);
}

TEST_F(NcclTest, AbortEndsWhatWaitsAndTheOtherRankIsTold) {
  make_ranks(2);
  float* first = on_device(0, {1});
  float* second = on_device(1, {2});
  const cudaStream_t next = make_stream();
  ASSERT_EQ(all_reduce(0, first, 1), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(first, first, 1, ncclFloat32, ncclSum, ranks_[0].comm, next),
            ncclSuccess);
  abort(0);
  EXPECT_EQ(cudaStreamSynchronize(next), cudaSuccess);
  ASSERT_EQ(all_reduce(1, second, 1), ncclSuccess);
  EXPECT_EQ(error_of(1), ncclRemoteError);
  EXPECT_EQ(cudaStreamQuery(ranks_[1].stream), cudaErrorNotReady) << "until it is aborted, too";
  abort(1);
  EXPECT_EQ(cudaStreamSynchronize(ranks_[1].stream), cudaSuccess);
}

// Rank 0 sends to rank 1 and receives from rank 2 in one group: when rank 1 has got its data, the
// group still waits for rank 2.
class NcclDeathTest : public NcclTest {
 protected:
  void write_the_input_of_a_group_under_way() {
    make_ranks(3);
    float* input = on_device(0, {1});
    float* output = on_device(0, {0});
    float* received = on_device(1, {0});
    float* late = on_device(2, {2});
    ncclGroupStart();
    ncclSend(input, 1, ncclFloat32, 1, ranks_[0].comm, ranks_[0].stream);
    ncclRecv(output, 1, ncclFloat32, 2, ranks_[0].comm, ranks_[0].stream);
    ncclGroupEnd();
    ncclRecv(received, 1, ncclFloat32, 0, ranks_[1].comm, ranks_[1].stream);
    if (cudaStreamSynchronize(ranks_[1].stream) != cudaSuccess) std::exit(1);
    const cudaStream_t other = make_stream();
    cudaMemsetAsync(input, 0, sizeof(float), other);
    if (cudaStreamSynchronize(other) != cudaSuccess) std::exit(1);
    ncclSend(late, 1, ncclFloat32, 0, ranks_[2].comm, ranks_[2].stream);
    std::_Exit(cudaStreamSynchronize(ranks_[0].stream) == cudaErrorLaunchFailure ? 3 : 1);
  }
};

TEST_F(NcclDeathTest, AnInputThatIsWrittenTooEarlyFailsTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write_the_input_of_a_group_under_way(), ::testing::ExitedWithCode(3),
              "the input of ncclSend was written before the call had ended");
}

}  // namespace
}  // namespace teraio::testing::emulated_cuda
