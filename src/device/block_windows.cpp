#include "device/block_windows.h"

#include <algorithm>

#include "base/units.h"

namespace teraio::device {

BlockWindows::BlockWindows(ByteRange addresses, int64_t page_bytes)
    : addresses_(addresses), page_bytes_(page_bytes), fresh_bytes_(addresses.begin_bytes) {}

void BlockWindows::begin(const Occasion& occasion) {
  moment_ = occasion.moment;
  last_moment_ = std::max(last_moment_, moment_);
}

std::optional<ByteRange> BlockWindows::last_block(const Occasion& occasion,
                                                  int64_t size_bytes) const {
  const auto found = blocks_.find(occasion.key);
  if (found == blocks_.end() || found->second.size_bytes != size_bytes) return std::nullopt;
  return found->second;
}

std::optional<ByteRange> BlockWindows::open(int64_t size_bytes,
                                            const std::function<bool(ByteRange)>& is_vacant) {
  const int64_t window_bytes = align_up(size_bytes, page_bytes_);
  while (window_bytes <= addresses_.end_bytes() - fresh_bytes_) {
    if (is_vacant({fresh_bytes_, window_bytes})) return ByteRange{fresh_bytes_, size_bytes};
    windows_[window_bytes][fresh_bytes_] = 0;  // for later
    fresh_bytes_ += window_bytes;
  }
  const auto known = windows_.find(window_bytes);
  if (known == windows_.end()) return std::nullopt;
  std::optional<ByteRange> oldest;
  uint64_t oldest_use = use_count_ + 1;
  for (const auto& [begin_bytes, last_use] : known->second) {
    if (last_use >= oldest_use || !is_vacant({begin_bytes, window_bytes})) continue;
    oldest = ByteRange{begin_bytes, size_bytes};
    oldest_use = last_use;
  }
  return oldest;
}

void BlockWindows::note(const Occasion& occasion, ByteRange block) {
  blocks_[occasion.key] = block;
  const int64_t first_bytes = block.begin_bytes & -page_bytes_;
  for (int64_t page = first_bytes; page < block.end_bytes(); page += page_bytes_) want(page);
  if (!contains(block.begin_bytes) || first_bytes != block.begin_bytes) return;
  const int64_t window_bytes = align_up(block.size_bytes, page_bytes_);
  windows_[window_bytes][block.begin_bytes] = ++use_count_;
  fresh_bytes_ = std::max(fresh_bytes_, block.begin_bytes + window_bytes);
}

void BlockWindows::want(int64_t offset_bytes) {
  const auto page = static_cast<size_t>(offset_bytes / page_bytes_);
  if (page >= wanted_.size()) wanted_.resize(page + 1, kNever);
  wanted_[page] = moment_;
}

int64_t BlockWindows::until_wanted(int64_t offset_bytes) const {
  const auto page = static_cast<size_t>(offset_bytes / page_bytes_);
  if (page >= wanted_.size() || wanted_[page] == kNever) return last_moment_ + 1;
  const int64_t moments = wanted_[page] - moment_;
  return moments > 0 ? moments : moments + last_moment_ + 1;
}

int64_t BlockWindows::moments_until_wanted(int64_t offset_bytes,
                                           std::span<const int64_t> others) const {
  int64_t moments = until_wanted(offset_bytes);
  for (const int64_t other_bytes : others) moments = std::min(moments, until_wanted(other_bytes));
  return moments;
}

}  // namespace teraio::device
