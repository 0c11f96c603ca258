#include "engine/live_tensor.h"

#include <algorithm>

namespace teraio::engine {
namespace {

bool is_any_extent_reserved(const LiveTensor& tensor) {
  return std::ranges::any_of(tensor.copies,
                             [](const TierCopy& copy) { return copy.extent.is_valid(); });
}

bool needs_memory(Residency residency) {
  return residency == Residency::kResident || residency == Residency::kOffloading ||
         residency == Residency::kLoading;
}

std::string_view broken_rule_of_copies(const LiveTensor& tensor) {
  const bool has_copy = tensor.valid_copy() != nullptr;
  for (const TierCopy& copy : tensor.copies)
    if (copy.is_valid && !copy.extent.is_valid()) return "a valid copy has an extent";
  switch (tensor.residency) {
    case Residency::kResident:
      return {};
    case Residency::kOffloading:
      return has_copy ? "what is written has no valid copy yet" : std::string_view();
    case Residency::kLoading:
      return has_copy ? std::string_view() : "what is read has a valid copy";
    case Residency::kOffloaded:
      if (has_copy || !is_any_extent_reserved(tensor)) return {};
      return "what is offloaded has a valid copy";
    case Residency::kDiscarded:
    case Residency::kDonated:
      return is_any_extent_reserved(tensor) ? "what is nowhere has no extent" : std::string_view();
  }
  return "unknown residency";
}

std::string_view broken_rule_of_transfer(const LiveTensor& tensor) {
  const TransferState& transfer = tensor.transfer;
  const bool is_resident = tensor.residency == Residency::kResident;
  if (transfer.is_copy_pending && !is_resident) return "copies are pending for a resident tensor";
  if (transfer.is_copy_pending && transfer.unanswered != nullptr)
    return "of a transfer without an answer, no copies are pending";
  if (transfer.unanswered != nullptr && !is_resident && tensor.residency != Residency::kLoading)
    return "without an answer, a tensor is resident or loading";
  const bool may_be_guarded =
      tensor.residency == Residency::kOffloading || (is_resident && tensor.valid_copy() != nullptr);
  if (transfer.is_guarded != (may_be_guarded && tensor.uses.pin_count == 0))
    return "a tensor is guarded while a tier has or gets its bytes, and nothing pins it";
  return {};
}

}  // namespace

std::string_view broken_rule(const LiveTensor& tensor) {
  if ((tensor.memory != nullptr) != needs_memory(tensor.residency))
    return "a tensor has memory where its bytes are on the device or on their way";
  if (tensor.residency == Residency::kDiscarded && tensor.replay.recipe == nullptr)
    return "a discarded tensor has a recipe";
  if (tensor.life == Life::kDead && !tensor.is_being_moved())
    return "a dead tensor is freed when its transfer has ended";
  if (const std::string_view broken = broken_rule_of_copies(tensor); !broken.empty()) return broken;
  return broken_rule_of_transfer(tensor);
}

uint64_t id_of(const LiveTensor& tensor) { return tensor.id; }

int64_t size_bytes_of(const LiveTensor& tensor) { return tensor.size_bytes; }

std::optional<BytesVersion> bytes_version(const LiveTensor& tensor) {
  if (tensor.uses.is_address_known || tensor.uses.write_pin_count > 0) return std::nullopt;
  static std::atomic<uint64_t> no_version = 0;
  if (tensor.uses.pin_count > 0) return BytesVersion(tensor.id, --no_version);
  return BytesVersion(tensor.id, tensor.replay.version);
}

void set_owner(LiveTensor& tensor, void* owner) {
  tensor.owner.store(owner, std::memory_order_release);
}

std::vector<std::byte*> addresses_of(std::span<LiveTensor* const> tensors) {
  std::vector<std::byte*> addresses;
  for (const LiveTensor* tensor : tensors)
    addresses.push_back(tensor == nullptr ? nullptr : tensor->memory);
  return addresses;
}

uint64_t structure_of(const iteration::OpSignature& signature, std::span<const Use> inputs) {
  uint64_t structure = signature.structure;
  for (const Use& use : inputs)
    if (use.tensor->record.persistence == RecordState::Persistence::kIdentifiesOps)
      structure = iteration::add_to_signature(structure, use.tensor->id);
  return structure;
}

// Relaxed: the flag orders nothing. It turns true once, when an op takes the tensor as an input or
// the op that made it ends, and only after that may the tensor leave. A thread that reads false
// runs the op that made the tensor; another op that takes it meanwhile races with that op in the
// program itself.
void note_complete(LiveTensor& tensor) {
  tensor.birth.is_complete.store(true, std::memory_order_relaxed);
}

bool is_complete(const LiveTensor& tensor) {
  return tensor.birth.is_complete.load(std::memory_order_relaxed);
}

}  // namespace teraio::engine
