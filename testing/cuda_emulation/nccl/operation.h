// Operation: the calls of one group on one communicator, which run as one piece of work on a
// stream.
//
//   begin      the rank tells those that it gets data from that it is ready
//   (waits until one that it sends data to is ready)
//   read       reads the inputs; each rank gets its data when it is ready
//   (waits until all data is there, and all that it sends has gone)
//   finish     writes the outputs
//
// What the program must leave alone meanwhile shows when it does not: outputs are garbage from the
// begin on, and an input that changes before the end is a failure of the device.
//
// Threads: begin, read and finish run in the machine's, one after the other. The rest belongs to
// the communicator, under its lock.
#pragma once

#include <memory>
#include <vector>

#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/nccl/call.h"

namespace teraio::testing::emulated_nccl {

class Operation {
 public:
  Operation(const std::vector<Call>& calls, int rank, int count);

  // What is sent to a rank, in the order in which it expects it.
  struct Sent {
    int peer;
    Message message;  // without bytes before read_inputs()
    bool is_sent = false;
  };
  // What is received, in the order of each rank.
  struct Received {
    int peer;
    Label label;
    Message message;  // without bytes before it has come
  };

  void spoil_outputs() const;
  void read_inputs();
  // Throws when an input has changed.
  void write_outputs();

  enum class Phase { kWaits, kHasBegun, kMayRead, kHasRead, kHasData };
  Phase phase = Phase::kWaits;
  std::vector<Sent> sends;
  std::vector<Received> receives;
  const std::shared_ptr<emulated_cuda::Point> may_read = emulated_cuda::make_point();
  const std::shared_ptr<emulated_cuda::Point> has_data = emulated_cuda::make_point();

 private:
  struct Part {
    Call call;
    Exchange exchange;
    std::shared_ptr<Bytes> input;  // as it was when it was read
  };

  void write_output(const Part& part, size_t& next) const;

  std::vector<Part> parts_;
};

}  // namespace teraio::testing::emulated_nccl
