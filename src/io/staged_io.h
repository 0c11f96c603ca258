// StagedIo: transfers between a drive and a device whose memory the CPU cannot address.
//
//   drive  <-- I/O -->  slot of a pinned ring  <-- copy -->  device
//
// Every chunk in flight has a slot, so copies overlap with reads and writes of other chunks. A
// device that the CPU can address needs no staging: I/O uses its memory directly.
//
// Threads: as ChunkIo. Two more threads wait for copies to end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/host_memory.h"
#include "io/chunk_io.h"
#include "io/copy_watcher.h"

namespace teraio::io {

struct StagedIoOptions {
  std::string drive_name;  // for messages
  int64_t slot_bytes = 0;  // the largest chunk; a multiple of kBlockBytes
};

// The store counts the ring as staging memory.
class StagedIo final : public ChunkIo {
 public:
  // The ring's size determines the number of slots. `device` must outlive the result. Fails if the
  // system refuses the threads.
  static Result<std::unique_ptr<StagedIo>> create(std::unique_ptr<ChunkIo> drive,
                                                  device::HostMemory ring,
                                                  device::DeviceOrder& device,
                                                  StagedIoOptions options);

  std::string description() const override { return drive_->description() + ", staged"; }
  void submit(const Chunk& chunk) override;
  void wait(std::vector<ChunkResult>& results) override;
  void wake() override { drive_->wake(); }

 private:
  StagedIo(std::unique_ptr<ChunkIo> drive, device::HostMemory ring, device::DeviceOrder& device,
           StagedIoOptions options);

  Chunk in_slot(size_t slot) const;
  size_t slot_of(const std::byte* memory) const;
  void settle_drive(const ChunkResult& result, std::vector<ChunkResult>& results);
  void settle_copies(std::vector<ChunkResult>& results);
  std::string describe_copy(size_t slot) const;
  void finish(size_t slot, Status status, std::vector<ChunkResult>& results);

  const std::unique_ptr<ChunkIo> drive_;
  const device::HostMemory ring_;
  device::DeviceOrder& device_;
  const StagedIoOptions options_;
  std::vector<Chunk> chunks_;            // by slot, like arrivals_
  std::vector<device::Event> arrivals_;  // of reads: the ends of their copies
  std::vector<size_t> free_slots_;
  std::vector<ChunkResult> drive_results_;
  std::unique_ptr<CopyWatcher> copies_;  // by slot; last member, so destroyed first
};

}  // namespace teraio::io
