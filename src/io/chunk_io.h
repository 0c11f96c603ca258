// ChunkIo: chunks on their way between the memory of transfers and one drive.
//
// What stands between a store and a DriveIo: RetryingIo makes transfers whole, StagedIo takes them
// through host memory, GpuDirectIo around it. All have the same request objects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "io/drive_io.h"

namespace teraio::io {

// The checksum of a chunk that was never written.
inline constexpr uint64_t kNoChecksum = 0;

struct Chunk {
  Direction direction = Direction::kRead;
  std::byte* memory = nullptr;   // page-aligned; the last block is touched whole
  int64_t offset_bytes = 0;      // in the drive's file
  int64_t size_bytes = 0;        // > 0, any
  uint64_t* checksum = nullptr;  // set by a write, compared by a read; nullptr: not kept
  uint64_t transfer = 0;         // its id in the store; comes back with the result, like the next
  bool is_urgent = false;
  device::Event after;               // the memory is not touched before it has passed
  device::Event* arrival = nullptr;  // as IoRequest's
};

struct ChunkResult {
  Chunk chunk;
  Status status;
  bool was_gpu_direct = false;
  // Not ok: GPUDirect failed under way, for this reason, and the drive goes on without it.
  Status gpu_direct_failure;
  // Of a read whose last step is a copy of the device that only wait() asks for: the copy's end. It
  // comes twice, first with `are_copies_enqueued`, which is no end yet.
  device::Event arrival = {};
  bool are_copies_enqueued = false;
};

// Threads: as DriveIo. A factory's `window` chunks at most are under way.
class ChunkIo {
 public:
  // Nothing is under way any more.
  virtual ~ChunkIo() = default;

  virtual std::string description() const = 0;
  virtual void submit(const Chunk& chunk) = 0;
  // Appends what has ended, and what is on its way. May return without any, after wake() or when
  // all that ended goes on.
  virtual void wait(std::vector<ChunkResult>& results) = 0;
  virtual void wake() = 0;
};

}  // namespace teraio::io
