#include "learn/pattern.h"

#include <algorithm>
#include <utility>

#include "engine/use.h"
#include "iteration/resized_profile.h"

namespace teraio::learn {
namespace {

// Of the bytes of an iteration: where sizes exceed others by more, they are larger.
constexpr double kLargerShare = 0.05;

bool is_larger(const iteration::Profile& a, const iteration::Profile& b) {
  return static_cast<double>(excess_bytes(a, b)) >
         kLargerShare * static_cast<double>(born_bytes(a));
}

std::shared_ptr<Variant> new_variant(iteration::Profile profile, uint64_t sizes) {
  auto variant = std::make_shared<Variant>();
  variant->schedule = std::make_shared<const iteration::Schedule>(std::move(profile));
  variant->sizes = sizes;
  return variant;
}

int64_t bytes_at(const Variant& variant, const SizesAtOp& at) {
  return bytes_at(variant.profile(), at.op, at.input_count);
}

// The one with less room of those that have enough, else the one with more.
bool fits_better(const Variant& a, const Variant& b, const SizesAtOp& at) {
  const int64_t bytes_of_a = bytes_at(a, at);
  const int64_t bytes_of_b = bytes_at(b, at);
  if ((bytes_of_a >= at.bytes) != (bytes_of_b >= at.bytes)) return bytes_of_a >= at.bytes;
  return bytes_of_a >= at.bytes ? bytes_of_a < bytes_of_b : bytes_of_a > bytes_of_b;
}

}  // namespace

Pattern::Pattern(iteration::Profile profile, const Key& key)
    : ops_(key.ops), sequence_(std::make_shared<const iteration::OpSequence>(profile.signatures)) {
  variants_.push_back(new_variant(std::move(profile), key.sizes));
}

bool Pattern::is_like(const iteration::Profile& profile) const {
  return are_alike(variants_.front()->profile(), profile);
}

bool Pattern::is_planned() const {
  return std::ranges::any_of(variants_, [](const auto& variant) { return variant->is_planned(); });
}

bool Pattern::is_in_use() const {
  return std::ranges::any_of(variants_, [](const auto& variant) { return variant->is_in_use(); });
}

std::shared_ptr<Variant> Pattern::measured(uint64_t sizes) const {
  const auto found = std::ranges::find_if(variants_, [sizes](const auto& variant) {
    return variant->is_measured && variant->sizes == sizes;
  });
  return found == variants_.end() ? nullptr : *found;
}

std::shared_ptr<Variant> Pattern::add_measured(iteration::Profile profile, uint64_t sizes) {
  note_sizes(profile);
  if (measured_count_ == kMeasuredMax) return nullptr;
  ++measured_count_;
  return variants_.emplace_back(new_variant(std::move(profile), sizes));
}

void Pattern::note_sizes(const iteration::Profile& profile) {
  if (!is_irregular_ && is_irregular_beside(profile)) {
    is_irregular_ = true;
    envelope_ = std::make_shared<const iteration::Profile>(variants_.front()->profile());
    for (const auto& variant : variants_)
      envelope_ =
          std::make_shared<const iteration::Profile>(envelope(*envelope_, variant->profile()));
    is_envelope_new_ = true;
  }
  if (!is_irregular_) return;
  is_envelope_new_ |= excess_bytes(profile, *envelope_) > 0;
  envelope_ = std::make_shared<const iteration::Profile>(envelope(*envelope_, profile));
}

bool Pattern::is_irregular_beside(const iteration::Profile& profile) const {
  return std::ranges::any_of(variants_, [&](const auto& variant) {
    return is_larger(profile, variant->profile()) && is_larger(variant->profile(), profile);
  });
}

std::shared_ptr<Variant> Pattern::best(const SizesAtOp& at,
                                       bool (*is_candidate)(const Variant&)) const {
  std::shared_ptr<Variant> best;
  for (const auto& variant : variants_)
    if (is_candidate(*variant) && (best == nullptr || fits_better(*variant, *best, at)))
      best = variant;
  return best;
}

std::shared_ptr<Variant> Pattern::fitting(const SizesAtOp& at) const {
  for (const auto& variant : variants_)
    if (variant->is_measured && variant->is_planned() &&
        variant->profile().signatures[static_cast<size_t>(at.op)].sizes == at.sizes)
      return variant;
  if (roomy_ != nullptr && roomy_->is_planned()) return roomy_;
  return best(at, [](const Variant& variant) { return variant.is_planned(); });
}

bool Pattern::has_room(const Variant& variant, const SizesAtOp& at) {
  return bytes_at(variant, at) >= at.bytes;
}

std::optional<Pattern::Wanted> Pattern::wanted(const SizesAtOp& at) {
  if (is_irregular_) {
    if (!is_envelope_new_ || (roomy_ != nullptr && roomy_->ticket != 0)) return std::nullopt;
    is_envelope_new_ = false;
    if (roomy_ == nullptr) {
      roomy_ = variants_.emplace_back(new_variant(*envelope_, 0));
      roomy_->is_measured = false;
    }
    return Wanted{roomy_, [envelope = envelope_] { return *envelope; }};
  }
  const std::shared_ptr<Variant> found = best(at, [](const Variant& variant) {
    return variant.is_in_use() || variant.planning_status.ok();
  });
  if (found == nullptr || found->is_in_use()) return std::nullopt;
  return Wanted{found, [schedule = found->schedule] { return schedule->profile(); }};
}

std::shared_ptr<Variant> Pattern::take_made(
    int64_t ticket, const Result<std::shared_ptr<const iteration::Schedule>>& made) {
  for (const auto& variant : variants_) {
    if (variant->ticket != ticket) continue;
    variant->ticket = 0;
    variant->planning_status = made.status();
    if (made.ok()) variant->schedule = *made;
    return variant;
  }
  return nullptr;
}

int64_t Pattern::size_bytes() const {
  int64_t total_bytes = sequence_->memory_bytes();
  for (const auto& variant : variants_) total_bytes += variant->schedule->memory_bytes();
  return total_bytes;
}

}  // namespace teraio::learn
