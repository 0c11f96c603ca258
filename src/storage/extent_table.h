// ExtentTable: the extents of a store and their places on its drives.
//
// reserve() takes any free bytes; reserve_planned() takes those that a layout has set aside. The
// table records what each extent contains and which transfers use it. It moves no bytes.
//
// Threads: one at a time. Pointers to records stay valid until the extent is released.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "storage/layout.h"
#include "storage/striping.h"
#include "storage/tier_store.h"

namespace teraio::storage {

struct ExtentRecord {
  int64_t size_bytes = 0;
  std::vector<Piece> pieces;
  std::vector<std::vector<uint64_t>> checksums;  // by piece and chunk; empty if none are kept
  int32_t reads_under_way = 0;
  bool write_under_way = false;
  bool holds_bytes = false;   // a write of the whole extent succeeded
  int64_t planned_copy = -1;  // index in the current layout; -1: not part of it
};

struct ExtentTableOptions {
  std::string store_name;  // for messages
  int64_t chunk_bytes = 0;
  bool checksum = false;  // records have room for one checksum per chunk
};

class ExtentTable {
 public:
  // `capacities_bytes` has one entry per drive, each a multiple of kBlockBytes.
  ExtentTable(const std::vector<int64_t>& capacities_bytes, ExtentTableOptions options);

  // As in TierStore.
  Result<Extent> reserve(int64_t size_bytes);
  void release(const Extent& extent);
  Status lay_out(std::span<const PlannedCopy> copies);
  std::optional<Extent> reserve_planned(size_t copy);

  // Return nullptr if the table has no such extent.
  ExtentRecord* find(const Extent& extent);
  const ExtentRecord* find(const Extent& extent) const;

  int32_t drive_count() const { return striping_.drive_count(); }
  // The weights of drives in later extents, see Striping.
  void set_weight(int32_t drive, double weight) { striping_.set_weight(drive, weight); }
  double weight(int32_t drive) const { return striping_.weights()[drive]; }

  // Sets the counters of capacity, of reserved and laid out bytes, and of displaced copies.
  void count(TierCounters& counters) const;

 private:
  using RecordMap = std::unordered_map<ExtentId, ExtentRecord>;

  ExtentRecord make_record(int64_t size_bytes, std::vector<Piece> pieces) const;
  ExtentId id_of(const Piece& first) const;
  void count_reserved(int64_t room_bytes);
  Status no_room(int64_t wanted_bytes, std::string_view what) const;
  void forget_layout();

  const ExtentTableOptions options_;
  Striping striping_;
  std::vector<int64_t> bases_bytes_;  // by drive: its start in the store's address space
  RecordMap records_;
  Layout layout_;
  // By copy of the layout: its record, ready to be inserted, while the copy is not reserved.
  std::vector<RecordMap::node_type> planned_records_;
  int64_t reserved_bytes_ = 0;
  int64_t reserved_peak_bytes_ = 0;
  int64_t displaced_count_ = 0;
};

}  // namespace teraio::storage
