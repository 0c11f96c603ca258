#include "io/staged_io.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace teraio::io {

StagedIo::StagedIo(std::unique_ptr<ChunkIo> drive, device::HostMemory ring,
                   device::DeviceOrder& device, StagedIoOptions options)
    : drive_(std::move(drive)),
      ring_(std::move(ring)),
      device_(device),
      options_(std::move(options)),
      chunks_(static_cast<size_t>(ring_.size_bytes() / options_.slot_bytes)),
      arrivals_(chunks_.size()) {
  for (size_t slot = chunks_.size(); slot > 0; --slot) free_slots_.push_back(slot - 1);
}

Result<std::unique_ptr<StagedIo>> StagedIo::create(std::unique_ptr<ChunkIo> drive,
                                                   device::HostMemory ring,
                                                   device::DeviceOrder& device,
                                                   StagedIoOptions options) {
  std::unique_ptr<StagedIo> io(
      new StagedIo(std::move(drive), std::move(ring), device, std::move(options)));
  auto copies = CopyWatcher::create(device, [drive = io->drive_.get()] { drive->wake(); });
  if (!copies.ok()) return copies.status();
  io->copies_ = std::move(*copies);
  return io;
}

Chunk StagedIo::in_slot(size_t slot) const {
  Chunk chunk = chunks_[slot];
  chunk.memory = ring_.at(static_cast<int64_t>(slot) * options_.slot_bytes);
  chunk.after = device::Event();
  chunk.arrival = nullptr;  // valid only during submit()
  return chunk;
}

size_t StagedIo::slot_of(const std::byte* memory) const {
  return static_cast<size_t>((memory - ring_.at(0)) / options_.slot_bytes);
}

void StagedIo::submit(const Chunk& chunk) {
  TERAIO_CHECK(!free_slots_.empty() && chunk.size_bytes <= options_.slot_bytes);
  const size_t slot = free_slots_.back();
  free_slots_.pop_back();
  chunks_[slot] = chunk;
  arrivals_[slot] = device::Event();
  const Chunk staged = in_slot(slot);
  if (chunk.direction == Direction::kRead)
    drive_->submit(staged);
  else
    copies_->watch(
        Direction::kWrite, slot,
        device_.copy_to_host(staged.memory, chunk.memory, chunk.size_bytes, chunk.after));
}

void StagedIo::wait(std::vector<ChunkResult>& results) {
  settle_copies(results);
  if (!results.empty()) return;
  drive_results_.clear();
  drive_->wait(drive_results_);
  for (const ChunkResult& result : drive_results_) settle_drive(result, results);
  settle_copies(results);
}

void StagedIo::settle_drive(const ChunkResult& result, std::vector<ChunkResult>& results) {
  const size_t slot = slot_of(result.chunk.memory);
  const Chunk& chunk = chunks_[slot];
  if (!result.status.ok() || chunk.direction == Direction::kWrite) {
    finish(slot, result.status, results);
    return;
  }
  const Result<device::Event> end =
      device_.copy_from_host(chunk.memory, result.chunk.memory, chunk.size_bytes, chunk.after);
  copies_->watch(Direction::kRead, slot, end);
  if (!end.ok()) return;
  arrivals_[slot] = *end;
  results.push_back({chunk, Status(), false, Status(), *end, true});
}

void StagedIo::settle_copies(std::vector<ChunkResult>& results) {
  for (const CopyWatcher::End& copy : copies_->take()) {
    const auto slot = static_cast<size_t>(copy.tag);
    const bool goes_on = copy.status.ok() && chunks_[slot].direction == Direction::kWrite;
    if (goes_on)
      drive_->submit(in_slot(slot));
    else
      finish(slot, copy.status.with_context(describe_copy(slot)), results);
  }
}

std::string StagedIo::describe_copy(size_t slot) const {
  const Chunk& chunk = chunks_[slot];
  return fmt::format("drive {}: {} bytes at offset {}: the copy {} failed", options_.drive_name,
                     chunk.size_bytes, chunk.offset_bytes,
                     chunk.direction == Direction::kRead ? "to the device" : "from the device");
}

void StagedIo::finish(size_t slot, Status status, std::vector<ChunkResult>& results) {
  results.push_back({chunks_[slot], std::move(status), false, Status(), arrivals_[slot]});
  free_slots_.push_back(slot);
}

}  // namespace teraio::io
