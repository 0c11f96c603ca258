#include "learn/pattern.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/use.h"
#include "iteration/resized_profile.h"

namespace teraio::learn {
namespace {

// A plan for tensors that are so much larger than the program's is close enough.
constexpr double kCloseRoom = 1.15;
// A plan for other sizes is made for this much more than is asked for, so that it serves sizes on
// both sides.
constexpr double kExtraRoom = 1.07;
// Measured sizes that differ by less do not tell how larger ones grow.
constexpr double kLeastSpread = 1.05;
constexpr double kFarthestPosition = 4;  // on the line through the smallest and the largest
// Of the bytes of an iteration: sizes that exceed the expected ones by more are irregular.
constexpr double kIrregularShare = 0.05;

bool exceeds(int64_t bytes, double share, int64_t of_bytes) {
  return static_cast<double>(bytes) > share * static_cast<double>(of_bytes);
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

// The first op whose sizes differ and tell those of others; kLost: there is none.
trace::OpIndex first_difference(const iteration::Profile& a, const iteration::Profile& b) {
  for (size_t i = 0; i < a.signatures.size(); ++i) {
    if (a.signatures[i].sizes == b.signatures[i].sizes) continue;
    const auto op = static_cast<trace::OpIndex>(i);
    const size_t count = b.touches[i].size();
    if (std::max(bytes_at(a, op, count), bytes_at(b, op, count)) >= Pattern::kTellingBytes)
      return op;
  }
  return iteration::kLost;
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
  return std::ranges::any_of(
      variants_, [](const auto& variant) { return variant->is_planned() || variant->ticket != 0; });
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

// What was expected of sizes beyond those measured is not needed any more.
void Pattern::note_sizes(const iteration::Profile& profile) {
  std::erase_if(variants_, [](const auto& variant) { return variant->is_extrapolated; });
  std::erase_if(requested_, [](const Requested& requested) { return requested.is_extrapolated; });
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

// Whether the measured sizes, by what the first op with other sizes has, do not tell the sizes of
// the profile.
bool Pattern::is_irregular_beside(const iteration::Profile& profile) const {
  const trace::OpIndex op = first_difference(variants_.front()->profile(), profile);
  if (op == iteration::kLost) return false;
  const size_t count = profile.touches[static_cast<size_t>(op)].size();
  const SizesAtOp at = {op, 0, count, iteration::bytes_at(profile, op, count)};
  const std::optional<Line> line = line_at(at);
  if (!line || line->position > 1) return false;  // beyond, what grows faster exceeds the line
  const iteration::Profile expected =
      interpolate(line->small->profile(), line->large->profile(), line->position);
  return exceeds(excess_bytes(profile, expected), kIrregularShare, born_bytes(profile));
}

// Between two measured variants where there are such, else beyond the largest one.
std::optional<Pattern::Line> Pattern::line_at(const SizesAtOp& at) const {
  std::vector<std::pair<int64_t, std::shared_ptr<const iteration::Schedule>>> measured;
  for (const auto& variant : variants_)
    if (variant->is_measured) measured.emplace_back(bytes_at(*variant, at), variant->schedule);
  std::ranges::sort(measured);
  const auto above = std::ranges::find_if(
      measured, [&](const auto& variant) { return variant.first >= at.bytes; });
  if (above == measured.begin()) return std::nullopt;
  const auto& large = above == measured.end() ? measured.back() : *above;
  const auto& small = above == measured.end() ? measured.front() : *std::prev(above);
  const bool is_between = above != measured.end();
  if (!is_between && !exceeds(large.first, kLeastSpread, small.first)) return std::nullopt;
  const double position =
      static_cast<double>(at.bytes - small.first) / static_cast<double>(large.first - small.first);
  return Line{small.second, large.second, std::min(position, kFarthestPosition)};
}

std::shared_ptr<Variant> Pattern::fitting(const SizesAtOp& at) const {
  const auto is_better = [&](const Variant& a, const Variant& b) {
    const int64_t bytes_of_a = bytes_at(a, at);
    const int64_t bytes_of_b = bytes_at(b, at);
    if ((bytes_of_a >= at.bytes) != (bytes_of_b >= at.bytes)) return bytes_of_a >= at.bytes;
    return bytes_of_a >= at.bytes ? bytes_of_a < bytes_of_b : bytes_of_a > bytes_of_b;
  };
  std::shared_ptr<Variant> best;
  for (const auto& variant : variants_) {
    if (!variant->is_planned()) continue;
    const uint64_t sizes = variant->profile().signatures[static_cast<size_t>(at.op)].sizes;
    if (is_irregular_ && !variant->is_measured) return variant;
    if (variant->is_measured && sizes == at.sizes) return variant;
    if (best == nullptr || is_better(*variant, *best)) best = variant;
  }
  return best;
}

bool Pattern::has_room(const Variant& variant, const SizesAtOp& at) {
  return bytes_at(variant, at) >= at.bytes;
}

std::optional<std::function<iteration::Profile()>> Pattern::profile_to_plan(const SizesAtOp& at) {
  if (is_irregular_) return envelope_to_plan();
  if (is_served(at) || resized_count() >= kResizedMax) return std::nullopt;
  SizesAtOp roomy = at;
  roomy.bytes = std::llround(static_cast<double>(at.bytes) * kExtraRoom);
  std::optional<Line> line = line_at(roomy);
  if (!line) return std::nullopt;
  return [line = std::move(*line)] {
    return interpolate(line.small->profile(), line.large->profile(), line.position);
  };
}

std::optional<std::function<iteration::Profile()>> Pattern::envelope_to_plan() {
  if (!is_envelope_new_ || !requested_.empty()) return std::nullopt;
  return [envelope = envelope_] { return *envelope; };
}

// Whether there is a plan with a little more room than is needed, or one is being made.
bool Pattern::is_served(const SizesAtOp& at) const {
  const auto fits = [&](int64_t bytes) {
    return bytes >= at.bytes && !exceeds(bytes, kCloseRoom, at.bytes);
  };
  return std::ranges::any_of(variants_,
                             [&](const auto& variant) {
                               return (variant->is_planned() || variant->ticket != 0) &&
                                      fits(bytes_at(*variant, at));
                             }) ||
         std::ranges::any_of(requested_, [&](const Requested& requested) {
           return requested.op == at.op && fits(requested.bytes);
         });
}

void Pattern::note_requested(const SizesAtOp& at, int64_t ticket) {
  is_envelope_new_ = false;
  const int64_t bytes = std::llround(static_cast<double>(at.bytes) * kExtraRoom);
  const bool is_extrapolated = std::ranges::none_of(variants_, [&](const auto& variant) {
    return variant->is_measured && bytes_at(*variant, at) >= bytes;
  });
  requested_.push_back({ticket, at.op, bytes, is_extrapolated && !is_irregular_});
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
  const auto found = std::ranges::find(requested_, ticket, &Requested::ticket);
  if (found == requested_.end() || !made.ok()) return nullptr;  // a failure is not tried again
  if (is_irregular_)
    std::erase_if(variants_, [](const auto& variant) { return !variant->is_measured; });
  auto variant = std::make_shared<Variant>();
  variant->schedule = *made;
  variant->is_measured = false;
  variant->is_extrapolated = found->is_extrapolated;
  requested_.erase(found);
  return variants_.emplace_back(std::move(variant));
}

int64_t Pattern::size_bytes() const {
  int64_t total_bytes = 0;
  for (const auto& variant : variants_) total_bytes += variant->schedule->memory_bytes();
  return total_bytes;
}

}  // namespace teraio::learn
