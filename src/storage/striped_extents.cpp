// The extents of a striped store: which bytes of its drives are whose.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/exact_io.h"
#include "storage/striped_store.h"

namespace teraio::storage {
namespace {

std::vector<std::vector<uint64_t>> make_checksums(const std::vector<Piece>& pieces,
                                                  int64_t request_bytes) {
  std::vector<std::vector<uint64_t>> checksums;
  for (const Piece& piece : pieces) {
    const int64_t chunk_count = (piece.size_bytes + request_bytes - 1) / request_bytes;
    checksums.emplace_back(static_cast<size_t>(chunk_count), io::kNoChecksum);
  }
  return checksums;
}

}  // namespace

StripedStore::ExtentRecord StripedStore::make_record(int64_t size_bytes,
                                                     std::vector<Piece> pieces) const {
  ExtentRecord record;
  record.size_bytes = size_bytes;
  record.pieces = std::move(pieces);
  if (options_.checksum) record.checksums = make_checksums(record.pieces, options_.request_bytes);
  return record;
}

int64_t StripedStore::offset_of(const Piece& first) const {
  return drives_[first.drive]->base_bytes + first.drive_offset_bytes;
}

void StripedStore::count_reserved(int64_t room_bytes) {
  reserved_bytes_ += room_bytes;
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, reserved_bytes_);
}

Status StripedStore::no_room(int64_t wanted_bytes, std::string_view what) const {
  std::string message =
      fmt::format("{}: no room for {}{} ({} bytes): {} of {} are free", options_.name, what,
                  format_size(wanted_bytes), wanted_bytes, format_size(striping_.free_bytes()),
                  format_size(striping_.capacity_bytes()));
  if (layout_.room_bytes() > 0)
    message += fmt::format(", {} are kept for the plan", format_size(layout_.room_bytes()));
  return Status(ErrorCode::kOutOfSpace, std::move(message));
}

Result<Extent> StripedStore::reserve(int64_t size_bytes) {
  if (size_bytes < 0)
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{}: cannot reserve {} bytes", options_.name, size_bytes));
  const std::lock_guard lock(mutex_);
  std::optional<std::vector<Piece>> pieces = striping_.take(room_bytes_of(size_bytes));
  if (!pieces) return no_room(size_bytes, "");
  const Extent extent{offset_of(pieces->front()), size_bytes};
  extents_[extent.offset_bytes] = make_record(size_bytes, std::move(*pieces));
  count_reserved(room_bytes_of(size_bytes));
  return extent;
}

void StripedStore::release(const Extent& extent) {
  const std::lock_guard lock(mutex_);
  const ExtentRecord* record = find_extent(extent);
  TERAIO_CHECK(record != nullptr);
  TERAIO_CHECK(record->reads_under_way == 0 && !record->write_under_way);
  count_reserved(-room_bytes_of(extent.size_bytes));
  if (record->planned_copy >= 0) {
    const auto copy = static_cast<size_t>(record->planned_copy);
    layout_.give_back(copy);
    planned_extents_[copy] = extents_.extract(extent.offset_bytes);
    return;
  }
  striping_.give_back(record->pieces);
  extents_.erase(extent.offset_bytes);
}

Status StripedStore::lay_out(std::span<const PlannedCopy> copies) {
  const std::lock_guard lock(mutex_);
  forget_layout();
  const int64_t needed_bytes = peak_room_bytes(copies);
  if (needed_bytes > striping_.free_bytes())
    return no_room(needed_bytes, fmt::format("the {} copies of the plan, ", copies.size()));
  layout_ = Layout(striping_, copies);
  striping_.take_exactly(layout_.room());
  extents_.reserve(extents_.size() + copies.size());
  ExtentMap making;
  for (size_t i = 0; i < copies.size(); ++i) {
    const int64_t offset_bytes = offset_of(layout_.pieces(i).front());
    ExtentRecord& record = making[offset_bytes];
    record = make_record(copies[i].size_bytes, layout_.pieces(i));
    record.planned_copy = static_cast<int64_t>(i);
    planned_extents_.push_back(making.extract(offset_bytes));
  }
  return Status();
}

// What is there by the layout becomes an extent like any other.
void StripedStore::forget_layout() {
  striping_.give_back(layout_.room());
  for (auto& [offset_bytes, record] : extents_)
    if (std::exchange(record.planned_copy, -1) >= 0) striping_.take_exactly(record.pieces);
  layout_ = Layout();
  planned_extents_.clear();
}

std::optional<Extent> StripedStore::reserve_planned(size_t copy) {
  const std::lock_guard lock(mutex_);
  if (copy >= layout_.copy_count()) return std::nullopt;
  if (!layout_.take(copy)) {
    ++displaced_count_;
    return std::nullopt;
  }
  const auto inserted = extents_.insert(std::move(planned_extents_[copy]));
  ExtentRecord& record = inserted.position->second;
  record.holds_bytes = false;
  count_reserved(room_bytes_of(record.size_bytes));
  return Extent{inserted.position->first, record.size_bytes};
}

}  // namespace teraio::storage
