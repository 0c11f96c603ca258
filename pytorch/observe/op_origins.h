// OpOrigins: which module, and which line of the program, an op comes from.
//
// An op of a backward pass comes from the forward op that has made its node of the graph.
//
// Threads: any, without a lock that a holder of Python's may wait for. Takes Python's lock.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "engine/use.h"
#include "iteration/op_origin.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

// The number of nodes that this thread has added to graphs. To be read before an op.
uint64_t graph_node_count();

class OpOrigins {
 public:
  // Of the op that runs on this thread. No exception leaves it, and one that is set in Python stays
  // set.
  iteration::OpOrigin find() const;
  // The op that ends on this thread began with `first_node`: where those of its nodes come from.
  void note_nodes(uint64_t first_node, const iteration::OpOrigin& origin);
  // The backward passes are over.
  void forget_nodes();

 private:
  struct Nodes {
    uint64_t first = 0;
    iteration::OpOrigin origin;
  };
  using Key = std::pair<uint64_t, uint64_t>;  // the thread, and the last node

  mutable std::mutex mutex_;
  std::map<Key, Nodes> nodes_;
};

// An op has begun that is not enqueued yet: tells where it comes from, if the engine asks for it.
// The time that this takes is no op's.
void find_origin(const ActiveSession& session, const engine::OpRequests& requests,
                 engine::OpFacts& facts);

}  // namespace teraio::pytorch
