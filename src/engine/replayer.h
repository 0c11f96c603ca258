// Replayer: how the framework runs an op again.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "engine/use.h"

namespace teraio::engine {

// An op and its arguments as they were, without the bytes of its tensors. May be destroyed on any
// thread and under the runtime's lock: it owns no tensor.
class ReplayableOp {
 public:
  virtual ~ReplayableOp() = default;

  // The op and one of OpReplay::results, for people: "op aten::mm: Float [64, 512]".
  virtual std::string name_of_result(size_t result) const = 0;
};

// What a replay has made. Owns new tensors of the runtime, and is destroyed without its lock.
class ReplayResults {
 public:
  virtual ~ReplayResults() = default;

  // One for each of OpReplay::results, in their order; null where that was null, and where the
  // memory is not the runtime's.
  virtual std::span<LiveTensor* const> tensors() const = 0;
};

// What the calling thread allocates while one exists is of an op that runs again, and not of the
// program.
class ReplayMark {
 public:
  ReplayMark() { ++depth(); }
  ~ReplayMark() { --depth(); }
  ReplayMark(const ReplayMark&) = delete;
  ReplayMark& operator=(const ReplayMark&) = delete;

  static bool is_set() { return depth() > 0; }

 private:
  static int& depth() {
    static thread_local int depth = 0;
    return depth;
  }
};

// Threads: the runtime calls without its lock, on the thread that needs the results. Several
// threads call one after the other.
class Replayer {
 public:
  virtual ~Replayer() = default;

  // Runs the op again. `inputs` are the bytes of the tensors that it read, in the order of
  // OpReplay::inputs; they are on the device, and nothing changes them meanwhile. The op is
  // not reported to the runtime, which it may ask for memory.
  virtual Result<std::unique_ptr<ReplayResults>> run(const ReplayableOp& op,
                                                     std::span<std::byte* const> inputs) = 0;
};

}  // namespace teraio::engine
