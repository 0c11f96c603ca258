// Moving tensors: starting transfers, and what their ends change.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "engine/engine.h"

namespace teraio::engine {
namespace {

constexpr int kPoison = 0xCB;

}  // namespace

bool Engine::start_write(LiveTensor& tensor, plan::Tier tier, storage::Priority priority) {
  if (!reserve_copy(tensor, tier, priority)) return false;
  tensor.residency = Residency::kOffloading;
  tensor.is_written_meanwhile = false;
  tensor.is_wanted_back = false;
  bytes_leaving_ += tensor.size_bytes;
  submit(tensor, io::Direction::kWrite, tier, priority, 0);
  return true;
}

void Engine::start_read(LiveTensor& tensor, std::byte* memory, storage::Priority priority,
                        int64_t deadline) {
  const plan::Tier tier =
      tensor.copy(plan::Tier::kHost).is_valid ? plan::Tier::kHost : plan::Tier::kSsd;
  TERAIO_CHECK(tensor.copy(tier).is_valid);
  tensor.memory = memory;
  tensor.residency = Residency::kLoading;
  offloaded_bytes_ -= tensor.size_bytes;
  submit(tensor, io::Direction::kRead, tier, priority, deadline);
}

bool Engine::reserve_copy(LiveTensor& tensor, plan::Tier tier, storage::Priority priority) {
  if (!copies_.takes_writes(tier)) return false;
  const Status status = copies_.reserve(tensor, tier, priority, live_);
  if (!status.ok() && tier == plan::Tier::kSsd) last_error_ = status;
  return status.ok();
}

void Engine::submit(LiveTensor& tensor, io::Direction direction, plan::Tier tier,
                    storage::Priority priority, int64_t deadline) {
  ++transfers_under_way_;
  storage::Transfer transfer;
  transfer.direction = direction;
  transfer.memory = tensor.memory;
  // After the tensor's last use, or after the last use of the memory that it has just been given.
  transfer.ready = options_.device->record();
  transfer.priority = priority;
  transfer.deadline = deadline;
  transfer.done = [this, moved = &tensor, direction](const storage::Completion& completion) {
    arrivals_.add({moved, direction, completion});
  };
  if (direction == io::Direction::kRead && !options_.device->is_host_addressable()) {
    transfer.on_copies_enqueued = [this, moved = &tensor](std::span<const device::Event> events) {
      Arrival arrival;
      arrival.tensor = moved;
      arrival.on_copies_enqueued.assign(events.begin(), events.end());
      arrivals_.add(std::move(arrival));
    };
  }
  copies_.submit(tensor, tier, std::move(transfer));
}

bool Engine::drop(LiveTensor& tensor) {
  if (!options_.swap->detach(tensor, tensor.owner)) return false;
  free_memory(tensor);
  tensor.residency = Residency::kOffloaded;
  offloaded_bytes_ += tensor.size_bytes;
  return true;
}

void Engine::pick_up_arrivals() {
  for (Arrival& arrival : arrivals_.take()) {
    if (!arrival.on_copies_enqueued.empty()) {
      arrival.tensor->arrival = std::move(arrival.on_copies_enqueued);
      continue;
    }
    --transfers_under_way_;
    if (arrival.direction == io::Direction::kWrite) {
      on_write_done(*arrival.tensor, arrival.completion);
    } else {
      on_read_done(*arrival.tensor, arrival.completion);
    }
  }
}

void Engine::on_write_done(LiveTensor& tensor, const storage::Completion& completion) {
  bytes_leaving_ -= tensor.size_bytes;
  if (tensor.is_dead) return destroy(tensor);
  tensor.residency = Residency::kResident;
  if (completion.status.code() == ErrorCode::kCancelled) return;
  if (!completion.status.ok()) {
    ++counters_.failed_transfers;
    last_error_ = completion.status;
    copies_.refuse_writes(tensor.transfer_tier);
    spdlog::error("teraio: writing to the {} tier failed, it is not written to any more: {}",
                  to_string(tensor.transfer_tier), completion.status.message());
    return;
  }
  if (tensor.is_written_meanwhile) return;
  tensor.copy(tensor.transfer_tier).is_valid = true;
  if (tensor.pin_count == 0 && !tensor.is_wanted_back) drop(tensor);
}

// The device makes compute wait; the caller does not.
bool Engine::order_after_arrival(LiveTensor& tensor) {
  if (tensor.arrival.empty()) return false;
  for (const device::Event event : tensor.arrival)
    if (!options_.device->order_after(event).ok()) return false;
  tensor.arrival.clear();
  tensor.residency = Residency::kResident;
  tensor.is_copy_pending = true;
  options_.swap->attach(tensor, tensor.owner, tensor.memory);
  return true;
}

// Compute may have used what never came: nothing that follows can be right.
void Engine::on_arrival_failed(const LiveTensor& tensor, const Status& status) {
  failure_ = status.with_context(fmt::format("tensor {} ({}) was in use when its read failed",
                                             tensor.id, format_size(tensor.size_bytes)));
  spdlog::error("teraio: {}", failure_.message());
}

void Engine::on_read_done(LiveTensor& tensor, const storage::Completion& completion) {
  tensor.arrival.clear();
  const bool is_in_use = std::exchange(tensor.is_copy_pending, false);
  if (tensor.is_dead) return destroy(tensor);
  if (is_in_use && completion.status.ok()) return;
  if (is_in_use) {
    ++counters_.failed_transfers;
    return on_arrival_failed(tensor, completion.status);
  }
  if (completion.status.ok()) {
    tensor.residency = Residency::kResident;
    options_.swap->attach(tensor, tensor.owner, tensor.memory);
    return;
  }
  ++counters_.failed_transfers;
  last_error_ = completion.status;
  free_memory(tensor);
  tensor.residency = Residency::kOffloaded;
  offloaded_bytes_ += tensor.size_bytes;
}

void Engine::wait_for_arrival(int64_t& stall_ns) {
  if (!arrivals_.has_any()) {
    const int64_t start_ns = options_.clock->now_ns();
    while (!arrivals_.has_any()) arrivals_.wait_for(std::chrono::milliseconds(1000));
    stall_ns += options_.clock->now_ns() - start_ns;
  }
  pick_up_arrivals();
}

void Engine::free_memory(LiveTensor& tensor) {
  if (options_.poison_released_memory && options_.device->is_host_addressable())
    std::memset(tensor.memory, kPoison, static_cast<size_t>(tensor.size_bytes));
  options_.device->release(std::exchange(tensor.memory, nullptr));
}

void Engine::destroy(LiveTensor& tensor) {
  copies_.release(tensor);
  if (tensor.memory != nullptr) options_.device->release(tensor.memory);
  delete &tensor;
}

}  // namespace teraio::engine
