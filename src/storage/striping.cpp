#include "storage/striping.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/units.h"
#include "io/drive_io.h"

namespace teraio::storage {
namespace {

// Shares are multiples of this, so that no drive gets a tiny last request.
constexpr int64_t kShareBytes = 64 * kKiB;
// The effective weight of a drive that is used only if no other has room.
constexpr double kLastResortWeight = 1e-9;

double effective_weight(double weight) { return std::max(weight, kLastResortWeight); }

}  // namespace

std::optional<std::vector<int64_t>> divide(int64_t total_bytes, const std::vector<double>& weights,
                                           const std::vector<int64_t>& limits_bytes,
                                           int64_t granularity_bytes) {
  TERAIO_CHECK(weights.size() == limits_bytes.size());
  // Starts with the part that reaches its limit first. The parts after it share what it cannot
  // hold.
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto fill_level = [&](size_t i) {
    return static_cast<double>(limits_bytes[i]) / effective_weight(weights[i]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return fill_level(a) < fill_level(b); });
  double weight_left = 0;
  for (const double weight : weights) weight_left += effective_weight(weight);

  std::vector<int64_t> parts(weights.size(), 0);
  int64_t bytes_left = total_bytes;
  for (const size_t i : order) {
    const double share =
        static_cast<double>(bytes_left) * effective_weight(weights[i]) / weight_left;
    const bool is_last = i == order.back();
    const int64_t rounded = static_cast<int64_t>(std::llround(share / granularity_bytes));
    const int64_t wanted_bytes = is_last ? bytes_left : rounded * granularity_bytes;
    parts[i] = std::min({wanted_bytes, limits_bytes[i], bytes_left});
    bytes_left -= parts[i];
    weight_left -= effective_weight(weights[i]);
  }
  // Rounding can leave bytes for which only an earlier part has room.
  for (size_t i = 0; i < parts.size() && bytes_left > 0; ++i) {
    const int64_t more_bytes = std::min(bytes_left, limits_bytes[i] - parts[i]);
    parts[i] += more_bytes;
    bytes_left -= more_bytes;
  }
  if (bytes_left > 0) return std::nullopt;
  return parts;
}

Striping::Striping(const std::vector<int64_t>& capacities_bytes)
    : spaces_(capacities_bytes.begin(), capacities_bytes.end()),
      weights_(capacities_bytes.size(), 1.0) {}

int64_t Striping::capacity_bytes() const {
  int64_t sum_bytes = 0;
  for (const FreeSpace& space : spaces_) sum_bytes += space.capacity_bytes();
  return sum_bytes;
}

int64_t Striping::free_bytes() const {
  int64_t sum_bytes = 0;
  for (const FreeSpace& space : spaces_) sum_bytes += space.free_bytes();
  return sum_bytes;
}

// The drive that holds the least in proportion to its weight.
std::optional<int32_t> Striping::drive_for_small(int64_t size_bytes) const {
  std::optional<int32_t> best;
  double best_load = 0;
  for (int32_t i = 0; i < drive_count(); ++i) {
    if (spaces_[i].free_bytes() < size_bytes) continue;
    const int64_t held_bytes = spaces_[i].capacity_bytes() - spaces_[i].free_bytes() + size_bytes;
    const double load = static_cast<double>(held_bytes) / effective_weight(weights_[i]);
    if (!best || load < best_load) {
      best = i;
      best_load = load;
    }
  }
  return best;
}

std::vector<int64_t> Striping::shares(int64_t size_bytes) const {
  std::vector<int64_t> shares(spaces_.size(), 0);
  if (size_bytes < kStripedBytes) {
    if (const auto drive = drive_for_small(size_bytes)) {
      shares[*drive] = size_bytes;
      return shares;
    }
  }
  std::vector<int64_t> limits_bytes;
  for (const FreeSpace& space : spaces_) limits_bytes.push_back(space.free_bytes());
  return *divide(size_bytes, weights_, limits_bytes, kShareBytes);
}

std::optional<std::vector<Piece>> Striping::take(int64_t size_bytes) {
  TERAIO_CHECK(size_bytes > 0 && size_bytes % io::kBlockBytes == 0);
  if (size_bytes > free_bytes()) return std::nullopt;
  const std::vector<int64_t> shares_bytes = shares(size_bytes);
  std::vector<Piece> pieces;
  int64_t extent_offset_bytes = 0;
  for (int32_t i = 0; i < drive_count(); ++i) {
    if (shares_bytes[i] == 0) continue;
    for (const ByteRange range : spaces_[i].take(shares_bytes[i])) {
      pieces.push_back({i, range.begin_bytes, extent_offset_bytes, range.size_bytes});
      extent_offset_bytes += range.size_bytes;
    }
  }
  return pieces;
}

void Striping::take_exactly(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces)
    spaces_[piece.drive].take_exactly({piece.drive_offset_bytes, piece.size_bytes});
}

void Striping::give_back(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces)
    spaces_[piece.drive].give_back({piece.drive_offset_bytes, piece.size_bytes});
}

}  // namespace teraio::storage
