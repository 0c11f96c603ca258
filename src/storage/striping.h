// Striping: which bytes of an extent lie on which drive.
//
// A large extent has one share on every drive, in proportion to the drives' weights, so that all of
// them finish it at the same time and the rates add up. A small one lies whole on one drive.
//
//   extent of 12 MiB, weights 2:1     drive 0 [0, 8 MiB)   drive 1 [8, 12 MiB)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "storage/free_space.h"

namespace teraio::storage {

// Extents below this size are not worth a second drive.
inline constexpr int64_t kStripedBytes = int64_t{4} << 20;

struct Piece {
  int32_t drive = 0;
  int64_t drive_offset_bytes = 0;   // in the drive's file
  int64_t extent_offset_bytes = 0;  // of its first byte within the extent
  int64_t size_bytes = 0;

  bool operator==(const Piece&) const = default;
};

// Divides `total_bytes` in proportion to the weights, in multiples of `granularity_bytes`, no part
// above its limit: what one cannot hold goes to the others. nullopt: the limits do not hold it.
// Everything is a multiple of kBlockBytes.
std::optional<std::vector<int64_t>> divide(int64_t total_bytes, const std::vector<double>& weights,
                                           const std::vector<int64_t>& limits_bytes,
                                           int64_t granularity_bytes);

// Not thread-safe.
class Striping {
 public:
  explicit Striping(const std::vector<int64_t>& capacities_bytes);

  int32_t drive_count() const { return static_cast<int32_t>(spaces_.size()); }
  int64_t capacity_bytes() const;
  int64_t free_bytes() const;
  int64_t capacity_bytes(int32_t drive) const { return spaces_[drive].capacity_bytes(); }

  // Shares of later extents. A weight of 0 takes a drive out while the others have room.
  void set_weight(int32_t drive, double weight) { weights_[drive] = weight; }
  const std::vector<double>& weights() const { return weights_; }

  // size_bytes > 0, rounded up by the caller to kBlockBytes. The pieces are in the order of the
  // extent's bytes. nullopt: fewer than size_bytes are free.
  std::optional<std::vector<Piece>> take(int64_t size_bytes);
  // Requires that all of these bytes are free.
  void take_exactly(const std::vector<Piece>& pieces);
  void give_back(const std::vector<Piece>& pieces);

 private:
  std::vector<int64_t> shares(int64_t size_bytes) const;
  std::optional<int32_t> drive_for_small(int64_t size_bytes) const;

  std::vector<FreeSpace> spaces_;
  std::vector<double> weights_;
};

}  // namespace teraio::storage
