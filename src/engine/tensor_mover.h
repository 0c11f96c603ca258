// TensorMover: moves the bytes of tensors between the device and the tiers, and frees tensors.
//
// It makes all changes of Residency. The caller decides what moves, and brings the memory and the
// extents:
//
//   kResident -- start_write() --> kOffloading -- the write ends --> kOffloaded, or kResident again
//   kOffloaded - start_read() ---> kLoading ----- the read ends ---> kResident, or kOffloaded again
//   kLoading --- order_after_arrival() --> kResident, while the read's last copies are under way
//   kResident -- drop() --> kOffloaded
//   kResident -- discard() --> kDiscarded -- take_memory() --> kResident
//
// Threads: called under the engine's lock. The stores' threads leave finished transfers in a queue;
// states change only in the calls that say so, and in the waits, which may last as long as I/O.
//
// Ownership: owns a tensor from destroy() on. The memory of a tensor that moves, its extent and
// whatever its StorageSwap knows stay valid until the transfer has ended.
//
// A wait ends early, with kInterrupted and without a change, as its WaitPolicy says.
//
// Failure: a failed write leaves the tensor on the device (TierCopies decides what follows). A
// failed read leaves it on the tier. Both are counted, and are last_error(). A read that fails
// after compute may have used its bytes is failure(), which stays, and so is any transfer that
// fails because the device does (kDeviceFailed). A transfer that fails because a drive does not
// answer is no longer under way, but uses its memory and its extent until the drive answers
// (TransferState::unanswered): a tensor that was read stays kLoading, one that was written stays on
// the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "device/device.h"
#include "engine/arrivals.h"
#include "engine/compute_points.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/live_tensor.h"
#include "engine/memory_uses.h"
#include "engine/tier_copies.h"

namespace teraio::engine {

// What ends a wait besides an arrival. A drive hangs when it has not answered a request for 2 s.
enum class WaitPolicy : uint8_t {
  kOfOp,       // an interrupt, or end_waits()
  kOfEnd,      // an interrupt, when a drive hangs and none has answered for 1 s: bytes are lost
  kOfDiscard,  // a drive hangs
  kEndless,
};

// How much is where, of all tensors. A value.
struct MovedAmounts {
  int64_t leaving_bytes = 0;  // memory that writes under way will free
  int64_t offloaded_bytes = 0;
  int64_t discarded_bytes = 0;
  int64_t unanswered_bytes = 0;  // device memory that drives without an answer may still use
  int64_t transfers_under_way = 0;

  // Transfers use the stores and the memory of tensors.
  bool has_transfers() const { return transfers_under_way > 0 || unanswered_bytes > 0; }
};

class TensorMover {
 public:
  // The options have a device, a swap and a clock. `copies`, `points`, which numbers the uses of
  // tensors, and `counters`, where failed transfers are counted, outlive the mover.
  TensorMover(const EngineOptions& options, TierCopies& copies, ComputePoints& points,
              EngineCounters& counters);
  // Waits for the transfers under way, and for drives that do not answer.
  ~TensorMover();
  TensorMover(const TensorMover&) = delete;
  TensorMover& operator=(const TensorMover&) = delete;

  // --- Starting -------------------------------------------------------------------------------

  // Writes a resident tensor to its extent on the tier. When the write has ended, the tensor leaves
  // the device, unless it is pinned, wanted back or written by then, or its owner keeps it.
  void start_write(LiveTensor& tensor, plan::Tier tier, storage::Priority priority);

  // Reads an offloaded tensor from a valid copy, that of the host tier where it has one, into
  // `memory`, which is the tensor's from now on.
  void start_read(LiveTensor& tensor, std::byte* memory, storage::Priority priority,
                  int64_t deadline);

  // Takes a resident tensor with a valid copy off the device. False: its owner keeps it.
  bool drop(LiveTensor& tensor);

  // Takes a resident tensor off the device without a copy. False: its owner keeps it.
  bool discard(LiveTensor& tensor);
  // Gives a discarded tensor the memory of one that a replay has made, which is kDonated then.
  // Requires that their sizes are equal.
  void take_memory(LiveTensor& tensor, LiveTensor& made);

  // Moves resident tensors that nothing uses to other places on the device, as
  // DeviceMemory::find_room() has found them. False: there are none, or an owner keeps its tensor
  // where it is, and nothing has moved.
  bool relocate(const std::vector<device::Relocation>& relocations);

  // Makes the transfer of the tensor urgent.
  void expedite(const LiveTensor& tensor) { copies_.expedite(tensor); }

  // The bytes of a tensor on the device are about to change: its copies on tiers are stale, also
  // the one that is being written.
  void mark_written(LiveTensor& tensor);

  // To be called when the tensor's pins or copies have changed. A tensor on the device is guarded
  // (StorageSwap::guard) while a tier has its bytes, or is being given them, and nothing pins it: a
  // change that no op announces would not reach that copy.
  void update_guard(LiveTensor& tensor) {
    if (needs_guard(tensor) != tensor.transfer.is_guarded) switch_guard(tensor);
  }

  // Frees the tensor, its memory and its copies: at once, or when the transfer that uses them has
  // ended. Its owner has been forgotten.
  void destroy(LiveTensor& tensor);

  // --- Ends -----------------------------------------------------------------------------------

  // Any thread, without a lock.
  bool has_arrivals() const { return arrivals_.has_any(); }
  // Makes the changes of transfers that have ended. False: none has. Does not wait.
  bool take_arrivals();

  // A tensor that is being read, and whose last copies the device has been given, is resident from
  // now on: compute waits for the copies, the caller does not. False: it is not that far.
  bool order_after_arrival(LiveTensor& tensor);

  // The bytes of the tensor, which is resident, come from compute that is enqueued now and that the
  // program does not know of.
  void note_brought(LiveTensor& tensor);

  // Makes work that is enqueued on the stream (as for Device::order_stream_after) from now on wait
  // until the bytes of the tensor, which is resident, have arrived. Does not block the caller.
  // There is nothing to wait for unless the tensor left the device since its last use on the
  // stream.
  Status order_stream(void* stream, const LiveTensor& tensor);

  // Waits until a transfer has ended, and makes its changes. Counts for how long it waited as a
  // stall for this cause. Requires that one is under way. After 10 s, and at intervals that double,
  // it logs which drives do not answer. kInterrupted: `policy` is at its end; the message names
  // these drives.
  Status wait_for_arrival(StallCause cause, WaitPolicy policy);
  // Waits until no transfer is under way.
  Status wait_until_idle(WaitPolicy policy);
  // The waits of ops end, now and from now on. Any thread, without the engine's lock.
  void end_waits() { ends_waits_.store(true, std::memory_order_relaxed); }
  bool has_ended_waits() const { return ends_waits_.load(std::memory_order_relaxed); }

  // --- State ----------------------------------------------------------------------------------

  bool is_idle() const { return amounts_.transfers_under_way == 0; }
  const MovedAmounts& amounts() const { return amounts_; }

  // Of the transfers since the last take_last_error(), the error of the one that failed last.
  const Status& last_error() const { return last_error_; }
  // A transfer failed before it could start.
  void set_last_error(Status error) { last_error_ = std::move(error); }
  Status take_last_error() { return std::exchange(last_error_, Status()); }
  // Not ok: the device has failed, or compute may have used bytes that never came. Nothing that
  // follows can be right.
  const Status& failure() const { return failure_; }

 private:
  static bool needs_guard(const LiveTensor& tensor) {
    if (tensor.uses.pin_count > 0 || tensor.memory == nullptr) return false;
    return tensor.residency == Residency::kOffloading ||
           (tensor.residency == Residency::kResident && tensor.valid_copy() != nullptr);
  }
  void switch_guard(LiveTensor& tensor);
  bool detach(LiveTensor& tensor);
  bool leave(LiveTensor& tensor);  // with a valid copy; false: its owner keeps it
  void attach(LiveTensor& tensor);
  void log_wait(int64_t waited_ns) const;
  bool is_at_end(WaitPolicy policy, uint64_t mark, int64_t waited_ns) const;
  Status interrupted() const;
  void note_stall(StallCause cause, int64_t start_ns);
  void note_transfer(const Arrival& arrival);
  void note_departure(const LiveTensor& tensor, plan::Action action);
  void submit(LiveTensor& tensor, plan::Tier tier, storage::Transfer transfer);
  void on_arrival(Arrival arrival);
  void on_unanswered(LiveTensor& tensor, const Status& status);
  void on_answered(LiveTensor& tensor);
  void on_write_done(LiveTensor& tensor, const storage::Completion& completion);
  void on_write_failed(const LiveTensor& tensor, const Status& status);
  void on_read_done(LiveTensor& tensor, const storage::Completion& completion);
  void on_late_read_failed(const LiveTensor& tensor, const Status& status);
  void on_device_failed(const Status& status);
  void note_brought_by(LiveTensor& tensor, device::Event event);
  bool detach_all(const std::vector<device::Relocation>& relocations);
  void move_bytes(const device::Relocation& relocation);
  void release_memory(LiveTensor& tensor, uint64_t last_use);
  void take_off_device(LiveTensor& tensor);
  void free_tensor(LiveTensor& tensor);

  const EngineOptions options_;
  device::Device& device_;
  TierCopies& copies_;
  ComputePoints& points_;
  MemoryUses free_memory_;
  EngineCounters& counters_;
  Arrivals arrivals_;
  std::atomic<bool> ends_waits_ = false;
  MovedAmounts amounts_;
  Status last_error_;
  Status failure_;
};

}  // namespace teraio::engine
