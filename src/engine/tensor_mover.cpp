#include "engine/tensor_mover.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "device/op_timer.h"
#include "engine/failure_details.h"
#include "engine/timeline.h"

namespace teraio::engine {
namespace {

constexpr int kPoison = 0xCB;
constexpr int64_t kFirstLogNs = 10'000'000'000;
constexpr int64_t kSlowNs = 50'000'000;  // no drive is named for a faster request
constexpr int64_t kHangNs = 2'000'000'000;
constexpr int64_t kQuietNs = 1'000'000'000;
constexpr std::chrono::milliseconds kLookInterval(100);

const EngineOptions& checked(const EngineOptions& options) {
  TERAIO_CHECK(options.device != nullptr && options.swap != nullptr && options.clock != nullptr);
  return options;
}

}  // namespace

TensorMover::TensorMover(const EngineOptions& options, TierCopies& copies, ComputePoints& points,
                         EngineCounters& counters)
    : options_(checked(options)),
      device_(*options.device),
      copies_(copies),
      points_(points),
      counters_(counters) {}

TensorMover::~TensorMover() {
  while (!is_idle() || amounts_.unanswered_bytes > 0)
    (void)wait_for_arrival(StallCause::kNone, WaitPolicy::kEndless);
}

void TensorMover::start_write(LiveTensor& tensor, plan::Tier tier, storage::Priority priority) {
  TERAIO_CHECK(tensor.copy(tier).extent.is_valid());
  TERAIO_CHECK(tensor.residency == Residency::kResident && !tensor.is_being_moved());
  tensor.residency = Residency::kOffloading;
  tensor.transfer.after_write = AfterWrite::kLeaves;
  amounts_.leaving_bytes += tensor.size_bytes;
  storage::Transfer transfer;
  transfer.direction = io::Direction::kWrite;
  transfer.priority = priority;
  submit(tensor, tier, std::move(transfer));
  update_guard(tensor);
}

void TensorMover::start_read(LiveTensor& tensor, std::byte* memory, storage::Priority priority,
                             int64_t deadline) {
  const plan::Tier tier =
      tensor.copy(plan::Tier::kHost).is_valid ? plan::Tier::kHost : plan::Tier::kSsd;
  TERAIO_CHECK(tensor.residency == Residency::kOffloaded && tensor.copy(tier).is_valid);
  tensor.memory = memory;
  tensor.uses.last_op =
      std::max(tensor.uses.last_op, free_memory_.last_use(memory, tensor.size_bytes));
  tensor.residency = Residency::kLoading;
  amounts_.offloaded_bytes -= tensor.size_bytes;
  storage::Transfer transfer;
  transfer.direction = io::Direction::kRead;
  transfer.priority = priority;
  transfer.deadline = deadline;
  if (!device_.is_host_addressable()) {
    transfer.on_copies_enqueued = [this, moved = &tensor](std::span<const device::Event> events) {
      Arrival arrival;
      arrival.tensor = moved;
      arrival.on_copies_enqueued.assign(events.begin(), events.end());
      arrivals_.add(std::move(arrival));
    };
  }
  submit(tensor, tier, std::move(transfer));
}

void TensorMover::switch_guard(LiveTensor& tensor) {
  tensor.transfer.is_guarded = !tensor.transfer.is_guarded;
  if (tensor.owner != nullptr)
    options_.swap->guard(tensor, tensor.owner, tensor.transfer.is_guarded);
}

void TensorMover::submit(LiveTensor& tensor, plan::Tier tier, storage::Transfer transfer) {
  ++amounts_.transfers_under_way;
  if (options_.timeline != nullptr) tensor.transfer.label = options_.timeline->label_of(tensor);
  tensor.transfer.is_urgent = transfer.priority == storage::Priority::kUrgent;
  transfer.memory = tensor.memory;
  // After the tensor's last use, or that of the memory which it has just been given.
  if (!device_.is_host_addressable()) transfer.ready = points_.after(tensor.uses.last_op);
  transfer.done = [this, moved = &tensor,
                   direction = transfer.direction](const storage::Completion& completion) {
    arrivals_.add({moved, direction, completion});
  };
  copies_.submit(tensor, tier, std::move(transfer));
}

// A tensor that the program has dropped has no owner any more, and may be kept for a recipe.
bool TensorMover::detach(LiveTensor& tensor) {
  return tensor.owner == nullptr || options_.swap->detach(tensor, tensor.owner);
}

void TensorMover::attach(LiveTensor& tensor) {
  if (tensor.owner != nullptr) options_.swap->attach(tensor, tensor.owner, tensor.memory);
}

bool TensorMover::drop(LiveTensor& tensor) {
  if (!leave(tensor)) return false;
  note_departure(tensor, plan::Action::kDrop);
  return true;
}

bool TensorMover::leave(LiveTensor& tensor) {
  if (!detach(tensor)) return false;
  tensor.transfer.is_guarded = false;
  take_off_device(tensor);
  return true;
}

bool TensorMover::discard(LiveTensor& tensor) {
  TERAIO_CHECK(tensor.residency == Residency::kResident && !tensor.is_being_moved());
  if (!detach(tensor)) return false;
  note_departure(tensor, plan::Action::kDiscard);
  tensor.transfer.is_guarded = false;
  release_memory(tensor, tensor.uses.last_op);
  copies_.release(tensor);
  tensor.residency = Residency::kDiscarded;
  amounts_.discarded_bytes += tensor.size_bytes;
  return true;
}

void TensorMover::take_memory(LiveTensor& tensor, LiveTensor& made) {
  TERAIO_CHECK(tensor.residency == Residency::kDiscarded && made.memory != nullptr);
  TERAIO_CHECK(tensor.size_bytes == made.size_bytes);
  (void)detach(made);  // it has no other owner
  tensor.memory = std::exchange(made.memory, nullptr);
  device_.set_tenant(tensor.memory, &tensor);
  made.residency = Residency::kDonated;
  tensor.residency = Residency::kResident;
  note_brought(tensor);
  amounts_.discarded_bytes -= tensor.size_bytes;
  attach(tensor);
}

// --- On the device ------------------------------------------------------------------------------

bool TensorMover::relocate(const std::vector<device::Relocation>& relocations) {
  if (relocations.empty() || !detach_all(relocations)) return false;
  device_.relocate(relocations);
  for (const device::Relocation& relocation : relocations) move_bytes(relocation);
  const device::Event moved = device_.record();
  for (const device::Relocation& relocation : relocations) {
    LiveTensor& tensor = *static_cast<LiveTensor*>(relocation.tenant);
    if (!device_.is_host_addressable())
      free_memory_.note_free(relocation.from, relocation.size_bytes, points_.op());
    note_brought_by(tensor, moved);
    attach(tensor);
    update_guard(tensor);
  }
  return true;
}

bool TensorMover::detach_all(const std::vector<device::Relocation>& relocations) {
  std::vector<LiveTensor*> detached;
  for (const device::Relocation& relocation : relocations) {
    auto* tensor = static_cast<LiveTensor*>(relocation.tenant);
    if (!detach(*tensor)) break;
    tensor->transfer.is_guarded = false;
    detached.push_back(tensor);
  }
  if (detached.size() == relocations.size()) return true;
  for (LiveTensor* tensor : detached) {
    attach(*tensor);
    update_guard(*tensor);
  }
  return false;
}

void TensorMover::move_bytes(const device::Relocation& relocation) {
  LiveTensor& tensor = *static_cast<LiveTensor*>(relocation.tenant);
  tensor.memory = relocation.to;
  const Status copied = device_.move_within(relocation.to, relocation.from, tensor.size_bytes);
  if (!copied.ok()) on_device_failed(copied);
  ++counters_.relocations;
  counters_.relocated_bytes += tensor.size_bytes;
}

void TensorMover::release_memory(LiveTensor& tensor, uint64_t last_use) {
  if (options_.poison_released_memory) {
    (void)device_.fill(tensor.memory, tensor.size_bytes, kPoison);
    last_use = points_.op();
  }
  if (!device_.is_host_addressable())
    free_memory_.note_free(tensor.memory, tensor.size_bytes, last_use);
  device_.release(std::exchange(tensor.memory, nullptr));
  tensor.transfer.brought_by.clear();
}

void TensorMover::take_off_device(LiveTensor& tensor) {
  release_memory(tensor, tensor.uses.last_op);
  tensor.residency = Residency::kOffloaded;
  amounts_.offloaded_bytes += tensor.size_bytes;
}

void TensorMover::mark_written(LiveTensor& tensor) {
  TERAIO_CHECK(tensor.memory != nullptr);  // away, its only valid bytes are such a copy
  ++tensor.replay.version;
  for (TierCopy& copy : tensor.copies) copy.is_valid = false;
  if (tensor.residency != Residency::kOffloading) return;
  tensor.transfer.after_write = AfterWrite::kStaysStale;
  copies_.cancel(tensor);
}

void TensorMover::destroy(LiveTensor& tensor) {
  if (tensor.residency == Residency::kOffloaded) amounts_.offloaded_bytes -= tensor.size_bytes;
  if (tensor.residency == Residency::kDiscarded) amounts_.discarded_bytes -= tensor.size_bytes;
  if (tensor.is_being_moved()) {
    tensor.life = Life::kDead;  // the transfer still uses its memory and extent
    copies_.cancel(tensor);
    return;
  }
  free_tensor(tensor);
}

void TensorMover::free_tensor(LiveTensor& tensor) {
  if (tensor.transfer.unanswered != nullptr) return;  // it is freed when the drive answers
  copies_.release(tensor);
  if (tensor.memory != nullptr) release_memory(tensor, points_.op());
  delete &tensor;
}

bool TensorMover::take_arrivals() {
  if (!arrivals_.has_any()) return false;
  for (Arrival& arrival : arrivals_.take()) on_arrival(std::move(arrival));
  return true;
}

void TensorMover::on_arrival(Arrival arrival) {
  LiveTensor& tensor = *arrival.tensor;
  if (!arrival.on_copies_enqueued.empty()) {
    tensor.transfer.arrival = std::move(arrival.on_copies_enqueued);
    return;
  }
  note_transfer(arrival);
  if (tensor.transfer.unanswered != nullptr) return on_answered(tensor);
  --amounts_.transfers_under_way;
  if (arrival.completion.is_unanswered) on_unanswered(tensor, arrival.completion.status);
  if (arrival.direction == io::Direction::kWrite) {
    on_write_done(tensor, arrival.completion);
  } else {
    on_read_done(tensor, arrival.completion);
  }
}

void TensorMover::on_unanswered(LiveTensor& tensor, const Status& status) {
  tensor.transfer.unanswered = std::make_unique<Status>(status);
  amounts_.unanswered_bytes += tensor.size_bytes;
}

void TensorMover::on_answered(LiveTensor& tensor) {
  tensor.transfer.unanswered.reset();
  amounts_.unanswered_bytes -= tensor.size_bytes;
  tensor.transfer.arrival.clear();
  if (tensor.life == Life::kDead) return free_tensor(tensor);
  if (tensor.residency == Residency::kLoading) take_off_device(tensor);
  update_guard(tensor);
}

void TensorMover::on_write_done(LiveTensor& tensor, const storage::Completion& completion) {
  amounts_.leaving_bytes -= tensor.size_bytes;
  if (tensor.life == Life::kDead) return free_tensor(tensor);
  tensor.residency = Residency::kResident;
  const bool is_cancelled = completion.status.code() == ErrorCode::kCancelled;
  if (!completion.status.ok() && !is_cancelled) on_write_failed(tensor, completion.status);
  if (completion.status.ok() && tensor.transfer.after_write != AfterWrite::kStaysStale) {
    tensor.copy(tensor.transfer.tier).is_valid = true;
    copies_.note_written(tensor.transfer.tier);
    if (tensor.uses.pin_count == 0 && tensor.transfer.after_write == AfterWrite::kLeaves)
      leave(tensor);
  }
  update_guard(tensor);
}

void TensorMover::on_write_failed(const LiveTensor& tensor, const Status& status) {
  ++counters_.failed_transfers;
  last_error_ = status;
  if (status.code() == ErrorCode::kDeviceFailed) return on_device_failed(status);
  spdlog::error(
      "teraio: tensor {} ({}) stays on the device, because writing it to the {} tier failed: {}. "
      "It is tried again when memory is needed{}",
      tensor.id, format_size(tensor.size_bytes), to_string(tensor.transfer.tier), status.message(),
      detail_lines(status.with_details({tensor_detail(tensor)})));
  copies_.note_failed_write(tensor, tensor.transfer.tier);
}

bool TensorMover::order_after_arrival(LiveTensor& tensor) {
  if (tensor.transfer.arrival.empty()) return false;
  for (const device::Event event : tensor.transfer.arrival)
    if (!device_.order_after(event).ok()) return false;
  tensor.transfer.brought_by = std::exchange(tensor.transfer.arrival, {});
  tensor.residency = Residency::kResident;
  tensor.transfer.is_copy_pending = true;
  attach(tensor);
  return true;
}

void TensorMover::note_brought(LiveTensor& tensor) { note_brought_by(tensor, device_.record()); }

void TensorMover::note_brought_by(LiveTensor& tensor, device::Event event) {
  tensor.uses.last_op = points_.op();
  if (!device_.is_host_addressable()) tensor.transfer.brought_by = {event};
}

Status TensorMover::order_stream(void* stream, const LiveTensor& tensor) {
  for (const device::Event event : tensor.transfer.brought_by)
    TERAIO_RETURN_IF_ERROR(device_.order_stream_after(stream, event));
  return {};
}

void TensorMover::on_read_done(LiveTensor& tensor, const storage::Completion& completion) {
  tensor.transfer.arrival.clear();
  tensor.transfer.brought_by.clear();  // the copies have ended
  const bool is_in_use = std::exchange(tensor.transfer.is_copy_pending, false);
  if (tensor.life == Life::kDead) return free_tensor(tensor);
  if (!completion.status.ok()) ++counters_.failed_transfers;
  if (completion.status.code() == ErrorCode::kDeviceFailed) on_device_failed(completion.status);
  if (completion.is_unanswered) {
    last_error_ = completion.status;
  } else if (is_in_use) {
    if (!completion.status.ok() && failure_.ok()) on_late_read_failed(tensor, completion.status);
  } else if (completion.status.ok()) {
    tensor.residency = Residency::kResident;
    attach(tensor);
  } else {
    last_error_ = completion.status;
    take_off_device(tensor);
  }
  update_guard(tensor);
}

void TensorMover::on_late_read_failed(const LiveTensor& tensor, const Status& status) {
  failure_ = Status(status.code(),
                    fmt::format("tensor {} ({}) was in use when its read failed: {}. What was "
                                "computed with it is wrong: train again from a checkpoint",
                                tensor.id, format_size(tensor.size_bytes), status.message()))
                 .with_details(status.details())
                 .with_details({tensor_detail(tensor)});
  spdlog::error("teraio: {}", full_text(failure_));
}

void TensorMover::on_device_failed(const Status& status) {
  if (!failure_.ok()) return;
  failure_ = Status(status.code(),
                    fmt::format("the device has failed: {}. A kernel of the program or the "
                                "hardware caused it, and the process cannot use the device any "
                                "more: train again from a checkpoint",
                                status.message()))
                 .with_details(status.details());
  spdlog::error("teraio: {}", full_text(failure_));
}

Status TensorMover::wait_for_arrival(StallCause cause, WaitPolicy policy) {
  if (!arrivals_.has_any()) {
    const device::PauseOfOps pause(device_.op_timer());
    const uint64_t mark = options_.interrupt == nullptr ? 0 : options_.interrupt->mark();
    const int64_t start_ns = options_.clock->now_ns();
    int64_t next_log_ns = kFirstLogNs;
    while (!arrivals_.has_any()) {
      if (arrivals_.wait_for(kLookInterval)) break;
      copies_.fail_unanswered();
      const int64_t so_far_ns = options_.clock->now_ns() - start_ns;
      if (is_at_end(policy, mark, so_far_ns)) {
        note_stall(cause, start_ns);
        return interrupted();
      }
      if (so_far_ns < next_log_ns) continue;
      log_wait(so_far_ns);
      next_log_ns *= 2;
    }
    note_stall(cause, start_ns);
  }
  take_arrivals();
  return {};
}

bool TensorMover::is_at_end(WaitPolicy policy, uint64_t mark, int64_t waited_ns) const {
  const auto has_interrupt = [&] {
    return options_.interrupt != nullptr && options_.interrupt->has_come_since(mark);
  };
  const auto hangs = [&] { return !copies_.unanswered(kHangNs).empty(); };
  switch (policy) {
    case WaitPolicy::kOfOp:
      return has_ended_waits() || has_interrupt();
    case WaitPolicy::kOfEnd:
      return waited_ns >= kQuietNs && has_interrupt() && hangs();
    case WaitPolicy::kOfDiscard:
      return hangs();
    case WaitPolicy::kEndless:
      return false;
  }
  return false;
}

Status TensorMover::interrupted() const {
  const std::vector<std::string> requests = copies_.unanswered(kSlowNs);
  std::string message = "the wait for a transfer was interrupted";
  if (!requests.empty()) message += fmt::format(": {}", fmt::join(requests, "; "));
  return Status(ErrorCode::kInterrupted, std::move(message));
}

void TensorMover::log_wait(int64_t waited_ns) const {
  const std::vector<std::string> requests = copies_.unanswered(kFirstLogNs / 2);
  spdlog::warn("teraio: training has waited {} s for a transfer: {}", waited_ns / 1'000'000'000,
               requests.empty()
                   ? "all drives answer"
                   : fmt::format("{}. It goes on when the drive answers; --io-timeout or "
                                 "io_timeout limits the wait",
                                 fmt::join(requests, "; ")));
}

Status TensorMover::wait_until_idle(WaitPolicy policy) {
  while (!is_idle()) TERAIO_RETURN_IF_ERROR(wait_for_arrival(StallCause::kNone, policy));
  return {};
}

void TensorMover::note_stall(StallCause cause, int64_t start_ns) {
  const int64_t end_ns = options_.clock->now_ns();
  if (cause == StallCause::kNone) return;
  counters_.add_stall(cause, end_ns - start_ns);
  if (options_.timeline != nullptr && options_.timeline->is_on())
    options_.timeline->add_stall(cause, start_ns, end_ns);
}

// Of a transfer that a drive has not answered, the parts are known when it has.
void TensorMover::note_transfer(const Arrival& arrival) {
  if (options_.timeline == nullptr || !options_.timeline->is_on() ||
      arrival.completion.is_unanswered)
    return;
  options_.timeline->add_transfer(*arrival.tensor, arrival.direction, arrival.completion);
}

void TensorMover::note_departure(const LiveTensor& tensor, plan::Action action) {
  if (options_.timeline != nullptr && options_.timeline->is_on())
    options_.timeline->add_departure(tensor, action);
}

}  // namespace teraio::engine
