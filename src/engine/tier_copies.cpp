#include "engine/tier_copies.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace teraio::engine {
namespace {

constexpr std::array kTiers = {plan::Tier::kSsd, plan::Tier::kHost};

bool is_being_moved(const LiveTensor& tensor, plan::Tier tier) {
  return tensor.is_being_moved() && tensor.transfer.tier == tier;
}

}  // namespace

Status TierCopies::reserve(LiveTensor& tensor, plan::Tier tier, storage::Priority priority,
                           Tensors live) {
  TERAIO_CHECK(takes_writes(tier));
  if (health(tier).has_failed_places) leave_failed_places(tier, live);
  TierCopy& copy = tensor.copy(tier);
  if (copy.extent.is_valid() && !store(tier)->takes_writes(copy.extent))
    store(tier)->release(std::exchange(copy.extent, storage::Extent()));
  if (copy.extent.is_valid()) return {};
  if (priority == storage::Priority::kPlanned) {
    if (const auto planned = reserve_planned(tensor, tier)) {
      copy.extent = *planned;
      return {};
    }
  }
  Result<storage::Extent> extent = store(tier)->reserve(tensor.size_bytes);
  if (!extent.ok() && reclaim_stale(tier, live)) extent = store(tier)->reserve(tensor.size_bytes);
  if (!extent.ok()) return extent.status();
  copy.extent = *extent;
  return {};
}

// Its place in the layout, where the program is what the profile was.
std::optional<storage::Extent> TierCopies::reserve_planned(const LiveTensor& tensor,
                                                           plan::Tier tier) {
  const PlannedCopies& layout = layouts_[static_cast<size_t>(tier)];
  if (layout.copies.empty() || tensor.planned.profile_index < 0) return std::nullopt;
  const int32_t copy = layout.of_tensor[static_cast<size_t>(tensor.planned.profile_index)];
  if (copy < 0 || layout.copies[static_cast<size_t>(copy)].size_bytes != tensor.size_bytes)
    return std::nullopt;
  return store(tier)->reserve_planned(static_cast<size_t>(copy));
}

// True when that freed any room.
bool TierCopies::reclaim_stale(plan::Tier tier, Tensors live) {
  bool has_freed = false;
  for (LiveTensor* tensor : live) {
    TierCopy& copy = tensor->copy(tier);
    if (!copy.extent.is_valid() || copy.is_valid || is_being_moved(*tensor, tier)) continue;
    store(tier)->release(std::exchange(copy.extent, storage::Extent()));
    has_freed = true;
  }
  return has_freed;
}

void TierCopies::note_failed_write(const LiveTensor& tensor, plan::Tier tier) {
  Health& health = this->health(tier);
  health.has_failed_places = true;
  if (tensor.transfer.id <= health.last_before_failure) return;
  health.last_before_failure = health.last_transfer;
  const size_t drive_count = std::max<size_t>(store(tier)->counters().drives.size(), 1);
  if (static_cast<size_t>(++health.failures_in_a_row) <= drive_count) return;
  health.is_refused = true;
  spdlog::error(
      "teraio: {} writes to the {} tier failed in a row: it is not written to any more. Training "
      "goes on while the device and the other tiers have room; `teraio doctor --ssd DIR` checks a "
      "drive",
      health.failures_in_a_row, to_string(tier));
}

void TierCopies::leave_failed_places(plan::Tier tier, Tensors live) {
  health(tier).has_failed_places = false;
  reclaim_stale(tier, live);
  if (give_up_layout(tier))
    spdlog::warn(
        "teraio: a write to the {} tier failed: training goes on, and copies of the plan get new "
        "places, as far as there is room. `teraio doctor --ssd DIR` checks a drive",
        to_string(tier));
}

void TierCopies::release(LiveTensor& tensor) {
  for (const plan::Tier tier : kTiers) release(tensor, tier);
}

void TierCopies::keep_only(LiveTensor& tensor, plan::Tier kept) {
  for (const plan::Tier tier : kTiers)
    if (tier != kept) release(tensor, tier);
}

void TierCopies::release(LiveTensor& tensor, plan::Tier tier) {
  TierCopy& copy = tensor.copy(tier);
  if (copy.extent.is_valid()) store(tier)->release(copy.extent);
  copy = TierCopy();
}

void TierCopies::lay_out(const iteration::Schedule& schedule, const ProfileBinding& binding,
                         Tensors live) {
  layouts_ = {};
  for (const plan::Tier tier : kTiers) {
    if (store(tier) == nullptr) continue;
    reclaim_stale(tier, live);
    lay_out_tier(tier, schedule, binding);
  }
}

void TierCopies::lay_out_tier(plan::Tier tier, const iteration::Schedule& schedule,
                              const ProfileBinding& binding) {
  PlannedCopies planned = planned_copies(schedule, tier, [&](trace::TensorIndex tensor) {
    const LiveTensor* bound = binding.find(tensor);
    return bound == nullptr || !bound->copy(tier).extent.is_valid();
  });
  const Status status = store(tier)->lay_out(planned.copies);
  if (status.ok()) {
    layouts_[static_cast<size_t>(tier)] = std::move(planned);
  } else if (!planned.has_part_time) {
    spdlog::warn(
        "teraio: {}. Copies of the plan get their places as they are made, and some tensors may "
        "stay on the device: give the tier more room{}",
        status.message(), detail_lines(status));
  }
}

void TierCopies::forget_layouts() {
  for (const plan::Tier tier : kTiers) give_up_layout(tier);
}

bool TierCopies::give_up_layouts() {
  bool has_freed = false;
  for (const plan::Tier tier : kTiers) {
    if (!give_up_layout(tier)) continue;
    spdlog::warn(
        "teraio: the {} tier is too full for what leaves on demand: copies of the plan get their "
        "places as they are made, and some tensors may stay on the device: give the tier more room",
        to_string(tier));
    has_freed = true;
  }
  return has_freed;
}

// False: there is none.
bool TierCopies::give_up_layout(plan::Tier tier) {
  PlannedCopies& layout = layouts_[static_cast<size_t>(tier)];
  if (layout.copies.empty()) return false;
  (void)store(tier)->lay_out({});
  layout = {};
  return true;
}

void TierCopies::submit(LiveTensor& tensor, plan::Tier tier, storage::Transfer transfer) {
  transfer.extent = tensor.copy(tier).extent;
  tensor.transfer.tier = tier;
  tensor.transfer.id = store(tier)->submit(std::move(transfer));
  health(tier).last_transfer = tensor.transfer.id;
}

void TierCopies::cancel(const LiveTensor& tensor) {
  store(tensor.transfer.tier)->cancel(tensor.transfer.id);
}

void TierCopies::expedite(const LiveTensor& tensor) {
  store(tensor.transfer.tier)->expedite(tensor.transfer.id);
}

void TierCopies::fail_unanswered() const {
  for (storage::TierStore* store : stores_)
    if (store != nullptr) store->fail_unanswered();
}

std::vector<std::string> TierCopies::unanswered(int64_t at_least_ns) const {
  std::vector<std::string> requests;
  for (const storage::TierStore* store : stores_) {
    if (store == nullptr) continue;
    for (std::string& request : store->unanswered(at_least_ns))
      requests.push_back(fmt::format("{}: {}", store->name(), request));
  }
  return requests;
}

void TierCopies::leave_stores() {
  stores_ = {};
  layouts_ = {};
}

}  // namespace teraio::engine
