// Group: what a thread has called since ncclGroupStart(), or one call outside of groups.
//
// Threads: each has its own.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <vector>

#include "testing/cuda_emulation/nccl/communicator.h"

namespace teraio::testing::emulated_nccl {

class Group {
 public:
  static Group& of_this_thread();

  void start() { ++depth_; }
  // At the end of the outermost group: connects its new communicators, and submits its calls.
  Outcome end();
  bool is_open() const { return depth_ > 0; }

  // At once, or at the end of the group.
  Outcome connect(const std::shared_ptr<Communicator>& communicator);
  Outcome submit(const std::shared_ptr<Communicator>& communicator, Call call, cudaStream_t stream);
  // The group gives this result, and does nothing.
  Outcome refuse(Outcome outcome);

 private:
  struct Pending {
    std::shared_ptr<Communicator> communicator;
    std::vector<Call> calls;
    std::set<cudaStream_t> streams;
  };

  Outcome run();

  int depth_ = 0;
  std::vector<std::shared_ptr<Communicator>> connecting_;
  std::vector<Pending> pending_;  // one for each communicator, in the order of their first calls
  Outcome failure_;
};

}  // namespace teraio::testing::emulated_nccl
