// MemorySegments: the segments that contain a device's blocks, and which of them are registered
// with a library for I/O.
//
// Registration (with cuFile) pins the memory and takes longer than many transfers. Therefore the
// first transfer that uses a segment registers all of it, and the segment is deregistered before it
// returns to the system. Memory outside all known segments, or across several, is not registered:
// I/O across several is done in parts.
//
//   memory's owner                      I/O threads
//   new block: add(its segment)
//                                       use(block): register_segment() once, then I/O
//   before freeing: remove(segment)     waits for I/O to end, then deregister_segment()
//
// Threads: any. The owner may call remove() under a lock of its own, such as the engine's.
// Hence neither this class nor a registrar may ask the owner for memory, or for a lock under which
// other threads do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/status.h"

namespace teraio::device {

// Memory that its owner obtains from the system, and returns to it, as a whole.
struct MemorySegment {
  std::byte* begin = nullptr;
  int64_t size_bytes = 0;

  bool contains(const std::byte* memory, int64_t bytes) const {
    return memory >= begin && memory + bytes <= begin + size_bytes;
  }
};

class SegmentRegistrar {
 public:
  virtual ~SegmentRegistrar() = default;
  // Called without a lock of MemorySegments held. After a failure, I/O uses the memory
  // unregistered.
  virtual Status register_segment(const MemorySegment& segment) = 0;
  // Called with a lock of MemorySegments held, and only while no I/O uses the segment.
  virtual void deregister_segment(const MemorySegment& segment) = 0;
};

struct SegmentCounters {
  int64_t registered_count = 0;  // at present
  int64_t registered_bytes = 0;
  int64_t refused_count = 0;  // failed registrations since the start
};

class MemorySegments {
 public:
  // Proof that a segment is in use. The segment is not removed while it exists. Empty if the memory
  // is not registered.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept;
    Use& operator=(Use&&) = delete;
    ~Use();

    // The start of the registered segment; nullptr if the memory is not registered.
    std::byte* begin() const { return begin_; }

   private:
    friend class MemorySegments;
    Use(MemorySegments& segments, std::byte* begin) : segments_(&segments), begin_(begin) {}

    MemorySegments* segments_ = nullptr;
    std::byte* begin_ = nullptr;
  };

  MemorySegments() = default;
  MemorySegments(const MemorySegments&) = delete;
  MemorySegments& operator=(const MemorySegments&) = delete;

  // --- The owner ---

  // Call this while a block in the segment is handed out, so that the segment cannot be freed at
  // the same time. Does nothing if the segment is known.
  void add(const MemorySegment& segment);
  // Waits for I/O to the segment to end, then deregisters and forgets it. Does nothing if the
  // segment is unknown.
  void remove(const std::byte* begin);

  // --- I/O ---

  // How many of these bytes, from the front, lie in one segment, or in none.
  int64_t bytes_in_one_segment(const std::byte* memory, int64_t size_bytes) const;
  // Registers the segment that contains the memory on its first use. Waits while another thread
  // registers it.
  Use use(SegmentRegistrar& registrar, const std::byte* memory, int64_t size_bytes);
  // Deregisters all segments that `registrar` registered, after I/O to them has ended. Must be
  // called before the registrar is destroyed.
  void leave(SegmentRegistrar& registrar);

  SegmentCounters counters() const;

 private:
  enum class State : uint8_t { kKnown, kRegistering, kRegistered, kRefused };

  struct Entry {
    MemorySegment segment;
    State state = State::kKnown;
    SegmentRegistrar* registrar = nullptr;  // registered it, or failed to
    int32_t use_count = 0;
    bool is_leaving = false;
  };
  using Entries = std::map<const std::byte*, Entry>;  // by begin

  void end_use(const std::byte* begin);
  // The callers hold the mutex.
  Entry* find(const std::byte* memory, int64_t size_bytes);
  void register_now(Entry& entry, SegmentRegistrar& registrar, std::unique_lock<std::mutex>& lock);
  // The segment must not be in use.
  void deregister_now(Entry& entry);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Entries entries_;
  SegmentCounters counters_;
};

}  // namespace teraio::device
