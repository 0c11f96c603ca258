// Striping: the distribution of an extent over the drives.
//
// A large extent has a share on every drive, in proportion to the drives' weights, so that all
// drives finish it at the same time and their rates add up. A small extent lies on one drive
// if any has room for it.
//
//   extent of 12 MiB, weights 2:1     drive 0 [0, 8 MiB)   drive 1 [8, 12 MiB)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "storage/free_space.h"

namespace teraio::storage {

// Smaller extents do not benefit from a second drive.
inline constexpr int64_t kStripedBytes = int64_t{4} << 20;

struct Piece {
  int32_t drive = 0;
  int64_t drive_offset_bytes = 0;   // in the drive's file
  int64_t extent_offset_bytes = 0;  // of its first byte within the extent
  int64_t size_bytes = 0;

  bool operator==(const Piece&) const = default;
};

// Divides `total_bytes` in proportion to the weights, in multiples of `granularity_bytes` where the
// limits allow it. No part exceeds its limit; the other parts take what it cannot hold. Returns
// nullopt if the limits do not add up to the total. All sizes are multiples of kBlockBytes.
std::optional<std::vector<int64_t>> divide(int64_t total_bytes, const std::vector<double>& weights,
                                           const std::vector<int64_t>& limits_bytes,
                                           int64_t granularity_bytes);

// Threads: one at a time.
class Striping {
 public:
  explicit Striping(const std::vector<int64_t>& capacities_bytes);

  int32_t drive_count() const { return static_cast<int32_t>(spaces_.size()); }
  int64_t capacity_bytes() const;
  int64_t free_bytes() const;
  int64_t capacity_bytes(int32_t drive) const { return spaces_[drive].capacity_bytes(); }

  // The weights for later extents, 1 at first. A drive of weight 0 is used only if the others have
  // no room.
  void set_weight(int32_t drive, double weight) { weights_[drive] = weight; }
  const std::vector<double>& weights() const { return weights_; }

  // `size_bytes` is a positive multiple of kBlockBytes. Returns pieces in the order of the extent's
  // bytes, or nullopt if fewer bytes are free.
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
