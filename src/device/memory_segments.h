// MemorySegments: the large pieces that a device's blocks lie in, and what of them a library for
// I/O has registered.
//
// Such a library (cuFile) pins the memory that is registered with it, which takes longer than many
// transfers. So it is done once for a whole segment, by the first transfer that uses it, and undone
// before the segment goes back to the system. Memory that lies in no known segment, or in more than
// one, is not registered.
//
//   the memory's owner                  threads that do I/O
//   a new block: add(its segment)
//                                       use(block): register_segment(), once; I/O
//   about to free: remove(segment)      until I/O there has ended; deregister_segment()
//
// Threads: any. remove() may come under a lock of the owner's (PyTorch's allocator has one), so
// that neither anything here nor a registrar asks the owner for memory, or for a lock under which
// others do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/status.h"

namespace teraio::device {

// What the owner of the memory takes from the system, and gives back, in one piece.
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
  // A failure is no failure of the I/O: it goes to memory that is not registered.
  virtual Status register_segment(const MemorySegment& segment) = 0;
  virtual void deregister_segment(const MemorySegment& segment) = 0;
};

struct SegmentCounters {
  int64_t registered_count = 0;  // now
  int64_t registered_bytes = 0;
  int64_t refused_count = 0;  // could not be registered, since the beginning
};

class MemorySegments {
 public:
  // That a segment is in use: until its end the segment is not removed. Empty: the memory is not
  // registered.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept;
    Use& operator=(Use&&) = delete;
    ~Use();

    // Where the registered segment begins; nullptr: not registered.
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

  // While a block in it is handed out, so that it cannot be on its way out.
  void add(const MemorySegment& segment);
  bool knows(const std::byte* memory) const;
  // Afterwards nothing of it is registered. Nothing happens when it is not known.
  void remove(const std::byte* begin);

  // --- I/O ---

  // Waits while another thread registers the segment.
  Use use(SegmentRegistrar& registrar, const std::byte* memory, int64_t size_bytes);
  // Deregisters all that `registrar` has registered: it is about to go.
  void leave(SegmentRegistrar& registrar);

  SegmentCounters counters() const;

 private:
  enum class State : uint8_t { kKnown, kRegistering, kRegistered, kRefused };

  struct Entry {
    MemorySegment segment;
    State state = State::kKnown;
    SegmentRegistrar* registrar = nullptr;  // that has registered it, or was refused
    int32_t use_count = 0;
    bool is_leaving = false;
  };
  using Entries = std::map<const std::byte*, Entry>;  // by begin

  void end_use(const std::byte* begin);
  // All of these with the mutex held.
  Entry* find(const std::byte* memory, int64_t size_bytes);
  void register_now(Entry& entry, SegmentRegistrar& registrar, std::unique_lock<std::mutex>& lock);
  // Nothing uses it.
  void deregister_now(Entry& entry);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Entries entries_;
  SegmentCounters counters_;
};

}  // namespace teraio::device
