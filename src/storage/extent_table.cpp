#include "storage/extent_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "io/chunk_io.h"

namespace teraio::storage {
namespace {

std::vector<std::vector<uint64_t>> make_checksums(const std::vector<Piece>& pieces,
                                                  int64_t chunk_bytes) {
  std::vector<std::vector<uint64_t>> checksums;
  for (const Piece& piece : pieces) {
    const int64_t chunk_count = (piece.size_bytes + chunk_bytes - 1) / chunk_bytes;
    checksums.emplace_back(static_cast<size_t>(chunk_count), io::kNoChecksum);
  }
  return checksums;
}

}  // namespace

ExtentTable::ExtentTable(const std::vector<int64_t>& capacities_bytes, ExtentTableOptions options)
    : options_(std::move(options)), striping_(capacities_bytes) {
  int64_t base_bytes = 0;
  for (const int64_t capacity_bytes : capacities_bytes) {
    bases_bytes_.push_back(base_bytes);
    base_bytes += capacity_bytes;
  }
}

ExtentRecord* ExtentTable::find(const Extent& extent) {
  return const_cast<ExtentRecord*>(std::as_const(*this).find(extent));
}

const ExtentRecord* ExtentTable::find(const Extent& extent) const {
  const auto it = records_.find(extent.id);
  if (it == records_.end() || it->second.size_bytes != extent.size_bytes) return nullptr;
  return &it->second;
}

ExtentRecord ExtentTable::make_record(int64_t size_bytes, std::vector<Piece> pieces) const {
  ExtentRecord record;
  record.size_bytes = size_bytes;
  record.pieces = std::move(pieces);
  if (options_.checksum) record.checksums = make_checksums(record.pieces, options_.chunk_bytes);
  return record;
}

ExtentId ExtentTable::id_of(const Piece& first) const {
  return bases_bytes_[first.drive] + first.drive_offset_bytes;
}

void ExtentTable::count_reserved(int64_t room_bytes) {
  reserved_bytes_ += room_bytes;
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, reserved_bytes_);
}

Status ExtentTable::no_room(int64_t wanted_bytes, std::string_view what) const {
  std::string message =
      fmt::format("the {} tier has no room for {}{} ({} bytes): {} of {} are free",
                  options_.store_name, what, format_size(wanted_bytes), wanted_bytes,
                  format_size(striping_.free_bytes()), format_size(striping_.capacity_bytes()));
  if (layout_.room_bytes() > 0)
    message += fmt::format(", {} are kept for the plan", format_size(layout_.room_bytes()));
  return Status(ErrorCode::kOutOfSpace, std::move(message));
}

Result<Extent> ExtentTable::reserve(int64_t size_bytes) {
  if (size_bytes < 0)
    return Status(ErrorCode::kInvalidArgument, fmt::format("the {} tier cannot reserve {} bytes",
                                                           options_.store_name, size_bytes));
  std::optional<std::vector<Piece>> pieces = striping_.take(room_bytes_of(size_bytes));
  if (!pieces) return no_room(size_bytes, "");
  const Extent extent{id_of(pieces->front()), size_bytes};
  records_[extent.id] = make_record(size_bytes, std::move(*pieces));
  count_reserved(room_bytes_of(size_bytes));
  return extent;
}

void ExtentTable::release(const Extent& extent) {
  const ExtentRecord* record = find(extent);
  TERAIO_CHECK(record != nullptr);
  TERAIO_CHECK(record->reads_under_way == 0 && !record->write_under_way);
  count_reserved(-room_bytes_of(extent.size_bytes));
  if (record->planned_copy >= 0) {
    const auto copy = static_cast<size_t>(record->planned_copy);
    layout_.give_back(copy);
    planned_records_[copy] = records_.extract(extent.id);
    return;
  }
  striping_.give_back(record->pieces);
  records_.erase(extent.id);
}

Status ExtentTable::lay_out(std::span<const PlannedCopy> copies) {
  forget_layout();
  const int64_t needed_bytes = peak_room_bytes(copies);
  if (needed_bytes > striping_.free_bytes())
    return no_room(needed_bytes, fmt::format("the {} copies of the plan, ", copies.size()));
  layout_ = Layout(striping_, copies);
  striping_.take_exactly(layout_.room());
  records_.reserve(records_.size() + copies.size());
  RecordMap making;
  for (size_t i = 0; i < copies.size(); ++i) {
    const ExtentId id = id_of(layout_.pieces(i).front());
    ExtentRecord& record = making[id];
    record = make_record(copies[i].size_bytes, layout_.pieces(i));
    record.planned_copy = static_cast<int64_t>(i);
    planned_records_.push_back(making.extract(id));
  }
  return Status();
}

// Extents of the old layout become ordinary extents.
void ExtentTable::forget_layout() {
  striping_.give_back(layout_.room());
  for (auto& [id, record] : records_)
    if (std::exchange(record.planned_copy, -1) >= 0) striping_.take_exactly(record.pieces);
  layout_ = Layout();
  planned_records_.clear();
}

std::optional<Extent> ExtentTable::reserve_planned(size_t copy) {
  if (copy >= layout_.copy_count()) return std::nullopt;
  if (!layout_.take(copy)) {
    ++displaced_count_;
    return std::nullopt;
  }
  const auto inserted = records_.insert(std::move(planned_records_[copy]));
  ExtentRecord& record = inserted.position->second;
  record.holds_bytes = false;
  count_reserved(room_bytes_of(record.size_bytes));
  return Extent{inserted.position->first, record.size_bytes};
}

void ExtentTable::count(TierCounters& counters) const {
  counters.capacity_bytes = striping_.capacity_bytes();
  counters.reserved_bytes = reserved_bytes_;
  counters.reserved_peak_bytes = reserved_peak_bytes_;
  counters.laid_out_bytes = layout_.room_bytes();
  counters.displaced_count = displaced_count_;
}

}  // namespace teraio::storage
