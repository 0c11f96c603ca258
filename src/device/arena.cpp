#include "device/arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "device/room_search.h"

namespace teraio::device {
namespace {

// The whole units within a gap.
ByteRange units_inside(const Gap& gap, int64_t unit_bytes) {
  const int64_t begin_bytes = align_up(gap.begin_bytes, unit_bytes);
  const int64_t end_bytes = gap.end_bytes / unit_bytes * unit_bytes;
  return {begin_bytes, std::max<int64_t>(end_bytes - begin_bytes, 0)};
}

}  // namespace

Arena::Arena(std::unique_ptr<AddressSpace> space, int64_t commit_bytes)
    : space_(std::move(space)), commit_bytes_(commit_bytes) {
  TERAIO_CHECK(commit_bytes % space_->page_bytes() == 0);
  uncommitted_.insert({0, space_->size_bytes() / commit_bytes * commit_bytes});
}

// --- Blocks -------------------------------------------------------------------------------------

std::byte* Arena::allocate_free(int64_t size_bytes, const Tenant& tenant) {
  const std::optional<int64_t> place = gaps_.place_for(size_bytes, tenant.leaves_at);
  return place ? take(*place, size_bytes, tenant) : nullptr;
}

std::byte* Arena::allocate(int64_t size_bytes, const Tenant& tenant, int64_t growth_limit_bytes,
                           Effort effort) {
  if (std::byte* block = allocate_free(size_bytes, tenant)) return block;
  for (const int64_t unit_bytes : {commit_bytes_, space_->page_bytes()}) {
    const std::optional<Growth> growth = least_growth(size_bytes, unit_bytes);
    if (growth && growth->commit.size_bytes <= growth_limit_bytes)
      return grow(*growth, size_bytes, tenant);
  }
  if (effort == Effort::kUtmost && exchange_pages(size_bytes, growth_limit_bytes))
    return allocate_free(size_bytes, tenant);
  if (size_bytes - free_bytes() <= growth_limit_bytes) commit_all(growth_limit_bytes);
  if (size_bytes <= free_bytes()) close_holes();
  return nullptr;
}

// Enough is free but scattered: find_room() can use all pages then.
void Arena::commit_all(int64_t growth_limit_bytes) {
  const int64_t page_bytes = space_->page_bytes();
  while (const auto range = uncommitted_.largest()) {
    const int64_t growth_bytes =
        std::min(growth_limit_bytes, range->size_bytes) / page_bytes * page_bytes;
    if (growth_bytes <= 0 || !commit({range->begin_bytes, growth_bytes})) return;
    growth_limit_bytes -= growth_bytes;
  }
}

// Blocks do not move past uncommitted pages between them. They change places with free pages above.
void Arena::close_holes() {
  std::vector<ByteRange> holes;
  uncommitted_.for_each_in({0, space_->size_bytes()},
                           [&](ByteRange range) { holes.push_back(range); });
  for (const ByteRange& hole : holes) {
    const int64_t returned_bytes =
        trim_units(hole.size_bytes, space_->page_bytes(), {0, hole.end_bytes()});
    if (returned_bytes == 0 || !commit({hole.begin_bytes, returned_bytes})) return;
  }
}

std::byte* Arena::take(int64_t offset_bytes, int64_t size_bytes, const Tenant& tenant) {
  gaps_.erase({offset_bytes, size_bytes}, tenant.leaves_at);
  blocks_.emplace(offset_bytes, Block{size_bytes, tenant});
  return space_->at(offset_bytes);
}

void Arena::release(const std::byte* block) {
  const auto found = blocks_.find(space_->offset_of(block));
  TERAIO_CHECK(found != blocks_.end());
  const ByteRange range{found->first, found->second.size_bytes};
  blocks_.erase(found);
  add_gap(range);
}

// The lowest addresses are for what stays, those below uncommitted pages for what leaves first: its
// memory may have to return to the system.
void Arena::add_gap(ByteRange range) {
  const auto above = blocks_.lower_bound(range.begin_bytes);
  const bool touches_above = above != blocks_.end() && above->first == range.end_bytes();
  double below_leaves_at = range.begin_bytes == 0 ? kNever : kSoon;
  if (above != blocks_.begin()) {
    const auto& [offset_bytes, block] = *std::prev(above);
    if (offset_bytes + block.size_bytes == range.begin_bytes)
      below_leaves_at = block.tenant.leaves_at;
  }
  gaps_.insert(range, below_leaves_at, touches_above ? above->second.tenant.leaves_at : kSoon);
}

void Arena::set_tenant(const std::byte* block, void* id) {
  const auto found = blocks_.find(space_->offset_of(block));
  TERAIO_CHECK(found != blocks_.end());
  found->second.tenant.id = id;
}

void Arena::set_leaves_at(const std::byte* block, double leaves_at) {
  const auto found = blocks_.find(space_->offset_of(block));
  TERAIO_CHECK(found != blocks_.end());
  found->second.tenant.leaves_at = leaves_at;
  gaps_.note_leaves_at({found->first, found->second.size_bytes}, leaves_at);
}

// --- Moves --------------------------------------------------------------------------------------

std::vector<Relocation> Arena::find_room(int64_t size_bytes, const MayMove& may_move,
                                         int64_t most_bytes) const {
  if (gaps_.total_bytes() < size_bytes) return {};
  std::vector<ArenaBlock> taken;
  for (const auto& [offset_bytes, block] : blocks_)
    taken.push_back({{offset_bytes, block.size_bytes},
                     block.tenant.leaves_at,
                     block.tenant.id != nullptr && may_move(block.tenant.id)});
  uncommitted_.for_each_in({0, space_->size_bytes()},
                           [&](ByteRange range) { taken.push_back({range}); });
  std::ranges::inplace_merge(taken, taken.begin() + static_cast<std::ptrdiff_t>(blocks_.size()), {},
                             [](const ArenaBlock& block) { return block.range.begin_bytes; });
  taken.push_back({{space_->size_bytes(), 0}});
  std::vector<Relocation> relocations;
  for (const BlockMove& move : find_moves(taken, gaps_, size_bytes, most_bytes))
    relocations.push_back({.from = space_->at(move.from.begin_bytes),
                           .to = space_->at(move.to_bytes),
                           .size_bytes = move.from.size_bytes,
                           .tenant = blocks_.at(move.from.begin_bytes).tenant.id});
  return relocations;
}

void Arena::relocate(std::span<const Relocation> relocations) {
  for (const Relocation& relocation : relocations) {
    const Tenant tenant = blocks_.at(space_->offset_of(relocation.from)).tenant;
    release(relocation.from);
    take(space_->offset_of(relocation.to), relocation.size_bytes, tenant);
  }
}

// --- Pages --------------------------------------------------------------------------------------

std::optional<Arena::Growth> Arena::growth_at(ByteRange uncommitted, int64_t size_bytes,
                                              int64_t unit_bytes) const {
  const int64_t below_bytes = gaps_.bytes_ending_at(uncommitted.begin_bytes);
  const int64_t block_bytes = uncommitted.begin_bytes - below_bytes;
  const int64_t missing_bytes = size_bytes - below_bytes;
  const int64_t commit_bytes =
      std::min(align_up(uncommitted.begin_bytes + missing_bytes, unit_bytes),
               uncommitted.end_bytes()) -
      uncommitted.begin_bytes;
  const Growth growth{block_bytes, {uncommitted.begin_bytes, commit_bytes}};
  if (missing_bytes <= commit_bytes) return growth;
  const int64_t above_bytes = gaps_.bytes_starting_at(uncommitted.end_bytes());
  return missing_bytes <= commit_bytes + above_bytes ? std::optional(growth) : std::nullopt;
}

std::optional<Arena::Growth> Arena::least_growth(int64_t size_bytes, int64_t unit_bytes) const {
  std::optional<Growth> least;
  uncommitted_.for_each_in({0, space_->size_bytes()}, [&](ByteRange range) {
    const std::optional<Growth> growth = growth_at(range, size_bytes, unit_bytes);
    if (growth && (!least || growth->commit.size_bytes < least->commit.size_bytes)) least = growth;
  });
  return least;
}

std::byte* Arena::grow(const Growth& growth, int64_t size_bytes, const Tenant& tenant) {
  return commit(growth.commit) ? take(growth.block_bytes, size_bytes, tenant) : nullptr;
}

bool Arena::commit(ByteRange range) {
  if (!space_->commit(range)) return false;
  uncommitted_.erase(range);
  held_bytes_ += range.size_bytes;
  add_gap(range);
  return true;
}

// Returns free pages and commits as many others in one range, at the end of what is committed.
bool Arena::exchange_pages(int64_t size_bytes, int64_t growth_limit_bytes) {
  const int64_t page_bytes = space_->page_bytes();
  const auto top = uncommitted_.largest();
  const auto growth = top ? growth_at(*top, size_bytes, page_bytes) : std::nullopt;
  if (!growth) return false;
  const int64_t missing_bytes = growth->commit.size_bytes - growth_limit_bytes;
  const ByteRange kept{growth->block_bytes, growth->commit.begin_bytes - growth->block_bytes};
  int64_t available_bytes = 0;
  for (const Gap& gap : gaps_.all())
    if (!kept.contains(gap.begin_bytes))
      available_bytes += units_inside(gap, page_bytes).size_bytes;
  if (available_bytes < missing_bytes) return false;
  int64_t returned_bytes = trim_units(missing_bytes, commit_bytes_, kept);
  if (returned_bytes < missing_bytes)
    returned_bytes += trim_units(missing_bytes - returned_bytes, page_bytes, kept);
  return returned_bytes >= missing_bytes && commit(growth->commit);
}

void Arena::trim(int64_t size_bytes) {
  const int64_t returned_bytes = trim_units(size_bytes, commit_bytes_, {});
  if (returned_bytes < size_bytes)
    trim_units(size_bytes - returned_bytes, space_->page_bytes(), {});
}

// From the highest addresses down, except the gaps in `kept`. Returns how much has returned to the
// system.
int64_t Arena::trim_units(int64_t size_bytes, int64_t unit_bytes, ByteRange kept) {
  int64_t returned_bytes = 0;
  const std::vector<Gap> gaps(gaps_.all().begin(), gaps_.all().end());
  for (auto gap = gaps.rbegin(); gap != gaps.rend() && returned_bytes < size_bytes; ++gap) {
    if (kept.contains(gap->begin_bytes)) continue;
    const ByteRange free = units_inside(*gap, unit_bytes);
    const int64_t missing_bytes = std::min(free.size_bytes, size_bytes - returned_bytes);
    const int64_t wanted_bytes = align_up(missing_bytes, unit_bytes);
    if (wanted_bytes == 0) continue;
    if (!decommit({free.end_bytes() - wanted_bytes, wanted_bytes})) return returned_bytes;
    returned_bytes += wanted_bytes;
  }
  return returned_bytes;
}

bool Arena::decommit(ByteRange range) {
  if (!space_->decommit(range)) return false;
  gaps_.erase(range, kSoon);
  uncommitted_.insert(range);
  held_bytes_ -= range.size_bytes;
  return true;
}

int64_t Arena::largest_bytes(int64_t growth_limit_bytes) const {
  int64_t largest_bytes = gaps_.largest_bytes();
  uncommitted_.for_each_in({0, space_->size_bytes()}, [&](ByteRange range) {
    const int64_t growth_bytes =
        std::min(range.size_bytes, std::max<int64_t>(growth_limit_bytes, 0)) /
        space_->page_bytes() * space_->page_bytes();
    largest_bytes =
        std::max(largest_bytes, gaps_.bytes_ending_at(range.begin_bytes) + growth_bytes);
  });
  return largest_bytes;
}

}  // namespace teraio::device
