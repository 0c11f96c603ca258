// StreamCheck: warns of a program that trains on another stream than the session's.
//
// The session manages the tensors of the stream on which it was entered. Those of other streams
// stay on the GPU, so that a program which enters a session and then trains inside
// `with torch.cuda.stream(...)` gets nothing of it.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace teraio::pytorch {

class StreamCheck {
 public:
  // An op of the program was enqueued on the session's stream, or elsewhere.
  void note_op(bool is_elsewhere) {
    if (op_count_.load(std::memory_order_relaxed) >= kOps) return;
    note_first_op(is_elsewhere);
  }

 private:
  static constexpr int32_t kOps = 200;  // as many decide

  void note_first_op(bool is_elsewhere);

  std::atomic<int32_t> op_count_ = 0;
  std::atomic<int32_t> elsewhere_count_ = 0;
};

}  // namespace teraio::pytorch
