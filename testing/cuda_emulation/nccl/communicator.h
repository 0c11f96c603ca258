// Communicator: a rank's part of an ncclComm_t.
//
// Operations of one communicator run one after the other, in the order of their submission,
// whatever streams they are on. One that waits for another rank does not keep other streams from
// going on.
//
// A rank that is lost, or calls another collective, is an asynchronous error, and the stream stands
// until the program aborts the communicator, as with NCCL.
//
// Threads: any. submit() calls must come one at a time for one communicator, as NCCL asks.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "testing/cuda_emulation/nccl/call.h"
#include "testing/cuda_emulation/nccl/mesh.h"
#include "testing/cuda_emulation/nccl/operation.h"

namespace teraio::testing::emulated_nccl {

// A result of NCCL, and what ncclGetLastError() says of it.
struct Outcome {
  ncclResult_t result = ncclSuccess;
  std::string text;
  bool is_ok() const { return result == ncclSuccess; }
};

class Communicator : public std::enable_shared_from_this<Communicator>, private MeshOwner {
 public:
  // Uses the calling thread's current device. All ranks give the same `name`, which no other
  // communicator has.
  Communicator(std::string name, int rank, int count);

  // Waits for the other ranks.
  Outcome connect();
  // Enqueues the calls as one operation on the first stream. The others wait for it, and it for
  // them.
  Outcome submit(const std::vector<Call>& calls, const std::set<cudaStream_t>& streams);
  // What each rank tells, by rank. All must call.
  Outcome gather_on_host(const Bytes& own, std::vector<Bytes>& all);
  // Waits until all operations have ended.
  Outcome finalize();
  // Afterwards the communicator does nothing more. An operation under way ends without results.
  void abort();
  // After finalize() or abort().
  void close();

  // An operation has failed, or none has.
  Outcome error() const;
  int rank() const { return rank_; }
  int count() const { return count_; }
  // The name of the next communicator that is made from this one, the same on all ranks.
  std::string next_name(int color);

 private:
  struct Peer {
    std::deque<Message> ready;
    std::deque<Message> data;
    std::deque<Message> on_host;
    bool is_lost = false;
  };

  // Of the mesh.
  void receive(int peer, Message message) override;
  void lose(int peer) override;
  void note_flushed() override;

  Outcome enqueue(const std::shared_ptr<Operation>& operation, const char* name,
                  const std::set<cudaStream_t>& streams);
  // The steps of an operation, in the machine's thread.
  void begin(const std::shared_ptr<Operation>& operation);
  void read(Operation& operation);
  void finish(Operation& operation);

  // The rest is called under the lock.
  void store(int peer, Message message);
  void post(int peer, Message message);
  // Lets the operation go on when what it waits for is there.
  void advance();
  bool is_awaited(const Operation& operation);
  bool send_what_is_awaited(Operation& operation);
  bool take_data(Operation& operation);
  void fail_for_loss_of(int peer);
  void fail_for_labels(const Operation::Sent& sent, const Label& wanted);
  void fail(ncclResult_t result, std::string text);
  void open_gates();

  const std::string name_;
  const int rank_;
  const int count_;
  int device_ = 0;
  Mesh mesh_;
  cudaEvent_t last_ = nullptr;  // the end of the last operation
  mutable std::mutex mutex_;    // of what follows
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::shared_ptr<Operation> current_;
  Outcome error_;
  bool is_aborted_ = false;
  bool is_ending_ = false;
  int child_count_ = 0;
};

}  // namespace teraio::testing::emulated_nccl
