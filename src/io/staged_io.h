// StagedIo: the way between a drive and a device whose memory the CPU cannot address.
//
//   drive  <-- I/O -->  slot of a pinned ring  <-- copy -->  device
//
// Every chunk under way has a slot, so that one is copied while others are read or written. On a
// device that the CPU can address this is not needed: I/O goes to its memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/host_memory.h"
#include "io/chunk_io.h"

namespace teraio::io {

struct StagedIoOptions {
  std::string drive_name;  // for messages
  int64_t slot_bytes = 0;  // the largest chunk, a multiple of kBlockBytes
};

// The bytes of the ring count as the store's staging memory.
class StagedIo final : public ChunkIo {
 public:
  // The ring has as many slots as it has room for; `device` outlives the result.
  StagedIo(std::unique_ptr<ChunkIo> drive, device::HostMemory ring, device::Device& device,
           StagedIoOptions options);
  ~StagedIo() override;

  std::string description() const override { return drive_->description() + ", staged"; }
  void submit(const Chunk& chunk) override;
  void wait(std::vector<ChunkResult>& results) override;
  void wake() override { drive_->wake(); }

 private:
  struct Copy {
    size_t slot = 0;
    device::Event end;
    Status status;
  };

  Chunk in_slot(size_t slot) const;
  size_t slot_of(const std::byte* memory) const;
  void start_copy(size_t slot, const Result<device::Event>& end);
  void settle_drive(const ChunkResult& result, std::vector<ChunkResult>& results);
  void settle_copies(std::vector<ChunkResult>& results);
  std::string describe_copy(size_t slot) const;
  void finish(size_t slot, Status status, std::vector<ChunkResult>& results);
  // The copier's thread: waits for copies to end, in the order of their begin.
  void watch_copies();

  const std::unique_ptr<ChunkIo> drive_;
  const device::HostMemory ring_;
  device::Device& device_;
  const StagedIoOptions options_;
  std::vector<Chunk> chunks_;            // by slot, as the next
  std::vector<device::Event> arrivals_;  // of reads: the ends of their copies
  std::vector<size_t> free_slots_;
  std::vector<ChunkResult> drive_results_;

  std::mutex mutex_;  // of the next four
  std::condition_variable copies_changed_;
  std::deque<Copy> copies_;
  std::vector<Copy> ended_;
  bool is_stopping_ = false;
  std::thread copier_;
};

}  // namespace teraio::io
