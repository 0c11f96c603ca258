#include "engine/failure_details.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/units.h"

namespace teraio::engine {
namespace {

constexpr size_t kTensorsNamed = 5;
constexpr size_t kGroupsNamed = 3;

// Why the tensor cannot leave the device, as far as it tells by itself.
std::string holds_of(const LiveTensor& tensor) {
  std::string text;
  if (tensor.uses.pin_count > 0) text += fmt::format(", {} pins", tensor.uses.pin_count);
  if (tensor.uses.is_address_known) text += ", its address is in use";
  if (tensor.owner == nullptr) text += ", its owner does not give it away";
  if (tensor.transfer.is_copy_pending) text += ", being read";
  if (tensor.life == Life::kDead) text += ", freed when its transfer ends";
  if (tensor.transfer.unanswered != nullptr) text += ", its drive does not answer";
  return text;
}

std::string copies_of(const LiveTensor& tensor) {
  std::string text;
  for (const plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost}) {
    const TierCopy& copy = tensor.copy(tier);
    if (copy.extent.is_valid())
      text += fmt::format(", {} on {} at {}", copy.is_valid ? "copy" : "stale copy",
                          plan::to_string(tier), copy.extent.id);
  }
  return text;
}

int64_t sum_of(const std::vector<LiveTensor*>& live, Residency residency) {
  int64_t total_bytes = 0;
  for (const LiveTensor* tensor : live)
    if (tensor->residency == residency) total_bytes += tensor->size_bytes;
  return total_bytes;
}

std::string_view reason_to_stay(const LiveTensor& tensor, int64_t smallest_tensor_bytes) {
  if (tensor.size_bytes < smallest_tensor_bytes) return "are small storages";
  if (tensor.uses.is_address_known) return "have addresses that the program knows";
  if (tensor.uses.write_pin_count > 0) return "are pinned by the program, or its NumPy arrays";
  if (tensor.uses.pin_count > 0) return "are operands of running ops";
  if (tensor.is_being_moved()) return "are being moved";
  return "have not been used by an op";
}

}  // namespace

int64_t bytes_that_the_program_holds(const std::vector<LiveTensor*>& live) {
  int64_t total_bytes = 0;
  for (const LiveTensor* tensor : live)
    if (tensor->uses.is_address_known || tensor->uses.write_pin_count > 0)
      total_bytes += tensor->size_bytes;
  return total_bytes;
}

std::string groups_that_stay(const std::vector<LiveTensor*>& live, int64_t smallest_tensor_bytes) {
  std::map<std::string_view, int64_t> bytes_by_reason;
  for (const LiveTensor* tensor : live)
    if (tensor->memory != nullptr)
      bytes_by_reason[reason_to_stay(*tensor, smallest_tensor_bytes)] += tensor->size_bytes;
  std::vector<std::pair<int64_t, std::string_view>> groups;
  for (const auto& [reason, size_bytes] : bytes_by_reason) groups.emplace_back(size_bytes, reason);
  std::ranges::sort(groups, std::greater());
  groups.resize(std::min(groups.size(), kGroupsNamed));
  std::string text;
  for (const auto& [size_bytes, reason] : groups)
    text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", format_size(size_bytes), reason);
  return text.empty() ? text : text + ")";
}

std::string_view to_string(Residency residency) {
  switch (residency) {
    case Residency::kResident:
      return "resident";
    case Residency::kOffloading:
      return "offloading";
    case Residency::kOffloaded:
      return "offloaded";
    case Residency::kLoading:
      return "loading";
    case Residency::kDiscarded:
      return "discarded";
    case Residency::kDonated:
      return "donated";
  }
  return "unknown";
}

std::string tensor_detail(const LiveTensor& tensor) {
  return fmt::format("tensor {}: {} bytes, {}{}{}{}, last used by op {} of the run", tensor.id,
                     tensor.size_bytes, to_string(tensor.residency),
                     tensor.update.is_parameter ? ", parameter" : "", holds_of(tensor),
                     copies_of(tensor), tensor.uses.last_op);
}

std::vector<std::string> memory_details(const device::MemoryUsage& usage,
                                        const std::vector<LiveTensor*>& live,
                                        const std::function<bool(const LiveTensor&)>& can_leave) {
  std::vector<const LiveTensor*> held;
  for (const LiveTensor* tensor : live)
    if (tensor->memory != nullptr && !can_leave(*tensor)) held.push_back(tensor);
  std::sort(held.begin(), held.end(),
            [](const LiveTensor* a, const LiveTensor* b) { return a->size_bytes > b->size_bytes; });
  std::vector<std::string> lines = {
      fmt::format("device memory: budget {} bytes, allocated {}, reserved {}, lost to rounding {}, "
                  "largest free piece {}",
                  usage.budget_bytes, usage.allocated_bytes, usage.reserved_bytes,
                  usage.rounding_bytes, usage.largest_free_bytes),
      fmt::format("tensors: {} in all, {} bytes resident, {} offloading, {} offloaded, {} loading, "
                  "{} discarded; {} on the device cannot leave",
                  live.size(), sum_of(live, Residency::kResident),
                  sum_of(live, Residency::kOffloading), sum_of(live, Residency::kOffloaded),
                  sum_of(live, Residency::kLoading), sum_of(live, Residency::kDiscarded),
                  held.size())};
  held.resize(std::min(held.size(), kTensorsNamed));
  for (const LiveTensor* tensor : held) lines.push_back(tensor_detail(*tensor));
  return lines;
}

}  // namespace teraio::engine
