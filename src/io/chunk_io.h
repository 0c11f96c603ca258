// ChunkIo: transfers chunks between memory and one drive.
//
// The layers between a store and a DriveIo share this interface: RetryingIo completes short
// transfers, StagedIo moves bytes through host memory, and GpuDirectIo moves them directly where
// possible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "io/drive_io.h"

namespace teraio::io {

// The checksum of a chunk that was never written, or has none.
inline constexpr uint64_t kNoChecksum = 0;

struct Chunk {
  Direction direction = Direction::kRead;
  std::byte* memory = nullptr;   // page-aligned; the transfer touches its last block whole
  int64_t offset_bytes = 0;      // in the drive's file
  int64_t size_bytes = 0;        // > 0, any multiple
  uint64_t* checksum = nullptr;  // set by a write, compared by a read; nullptr: none
  uint64_t transfer = 0;         // the transfer's id in the store; returned with the result
  bool is_urgent = false;
  device::Event after;               // the transfer touches the memory only after this has passed
  device::Event* arrival = nullptr;  // as in IoRequest
};

struct ChunkResult {
  Chunk chunk;
  Status status;
  bool was_gpu_direct = false;
  // If not ok: why GPUDirect Storage failed. The drive no longer uses it.
  Status gpu_direct_failure;
  // Set for a read that ends with a copy to the device which wait() enqueues: the end of that copy.
  // Such a read has two results. The first, with `are_copies_enqueued`, reports that the copy is
  // enqueued; the second ends the chunk.
  device::Event arrival = {};
  bool are_copies_enqueued = false;
};

// Threads: as DriveIo. At most `in_flight_max` chunks (a factory's argument) are in flight.
class ChunkIo {
 public:
  // No chunk may be in flight.
  virtual ~ChunkIo() = default;

  virtual std::string description() const = 0;
  // Starts the transfer of a chunk. Its memory and checksum stay valid until its final result.
  virtual void submit(const Chunk& chunk) = 0;
  // Appends the results that are available. Blocks while there is none, until wake() is called, but
  // may also return without a result when a chunk moves on to its next stage. A failed chunk has a
  // status that names the drive and the cause.
  virtual void wait(std::vector<ChunkResult>& results) = 0;
  virtual void wake() = 0;
};

}  // namespace teraio::io
