// StagedIo: transfers between a drive and a device whose memory the CPU cannot address.
//
//   drive  <-- I/O -->  slot of a pinned ring  <-- copy -->  device
//
// Every chunk in flight has a slot, so copies overlap with reads and writes of other chunks. A
// device that the CPU can address needs no staging: I/O uses its memory directly.
//
// Threads: as ChunkIo. One more thread waits for copies to end.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "device/host_memory.h"
#include "io/chunk_io.h"

namespace teraio::io {

struct StagedIoOptions {
  std::string drive_name;  // for messages
  int64_t slot_bytes = 0;  // the largest chunk; a multiple of kBlockBytes
};

// The store counts the ring as staging memory.
class StagedIo final : public ChunkIo {
 public:
  // The ring's size determines the number of slots. `device` must outlive the result. Fails if the
  // system refuses the thread.
  static Result<std::unique_ptr<StagedIo>> create(std::unique_ptr<ChunkIo> drive,
                                                  device::HostMemory ring, device::Device& device,
                                                  StagedIoOptions options);
  ~StagedIo() override;

  std::string description() const override { return drive_->description() + ", staged"; }
  void submit(const Chunk& chunk) override;
  void wait(std::vector<ChunkResult>& results) override;
  void wake() override { drive_->wake(); }

 private:
  StagedIo(std::unique_ptr<ChunkIo> drive, device::HostMemory ring, device::Device& device,
           StagedIoOptions options);

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
  // The copier thread's function: waits for copies to end, in the order in which they began.
  void watch_copies();

  const std::unique_ptr<ChunkIo> drive_;
  const device::HostMemory ring_;
  device::Device& device_;
  const StagedIoOptions options_;
  std::vector<Chunk> chunks_;            // by slot, like arrivals_
  std::vector<device::Event> arrivals_;  // of reads: the ends of their copies
  std::vector<size_t> free_slots_;
  std::vector<ChunkResult> drive_results_;

  std::mutex mutex_;  // protects the next four members
  std::condition_variable copies_changed_;
  std::deque<Copy> copies_;
  std::vector<Copy> ended_;
  bool is_stopping_ = false;
  std::thread copier_;
};

}  // namespace teraio::io
