// Mesh: a Unix socket between each two ranks of a communicator, which are threads or processes of
// one machine. Their addresses are abstract names, so that nothing is left on a file system, and a
// rank that dies ends its sockets.
//
// One thread of its own sends and receives. Messages between two ranks keep their order.
//
// Threads: any, except connect() and close(), which come first and last.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "testing/cuda_emulation/nccl/message.h"

namespace teraio::testing::emulated_nccl {

// What a mesh tells, in its thread, without its lock.
class MeshOwner {
 public:
  virtual void receive(int peer, Message message) = 0;
  // Nothing more comes from this rank.
  virtual void lose(int peer) = 0;
  // The system has all messages: they arrive even if this process ends now.
  virtual void note_flushed() = 0;

 protected:
  ~MeshOwner() = default;
};

class Mesh {
 public:
  // `name` is the communicator's: the same on all ranks.
  Mesh(std::string name, int rank, int count, MeshOwner& owner);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Waits until all ranks have done so. Returns "", or what failed.
  std::string connect();
  // Sends a message to another rank. A rank that is lost gets nothing.
  void post(int peer, Message message);
  bool is_flushed() const;
  // Ends the sockets, after all messages have been sent if `flushes`.
  void close(bool flushes);

 private:
  struct Peer {
    int socket = -1;
    std::deque<Message> outbound;
    size_t sent_bytes = 0;  // of the first of them
    // What arrives, in the mesh's thread only.
    Message inbound;
    std::shared_ptr<Bytes> inbound_bytes;
    size_t received_bytes = 0;
  };

  std::string connect_all(int listener);
  std::string connect_to(int peer);
  std::string accept_from(int listener);
  void start();
  void wake();
  void work();
  bool has_outbound() const;  // under the lock
  // Send and receive what can be now. False: the socket has ended.
  bool send_some(Peer& peer);
  bool receive_some(int number);
  // So many more bytes of a message are there: hands it out when it is whole.
  void take_bytes(int number, size_t count);
  void end(int number);

  const std::string name_;
  const int rank_;
  MeshOwner& owner_;
  std::vector<Peer> peers_;
  int wake_ = -1;
  std::thread thread_;
  mutable std::mutex mutex_;  // of `outbound`, `sent_bytes`, `socket` and what follows
  bool is_closing_ = false;
  bool flushes_ = false;
};

}  // namespace teraio::testing::emulated_nccl
