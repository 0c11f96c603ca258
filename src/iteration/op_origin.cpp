#include "iteration/op_origin.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_set>

namespace teraio::iteration {
namespace {

constexpr size_t kOriginsMax = 200'000;  // about 16 MB

}  // namespace

std::string text_of(const OpOrigin& origin) {
  std::string text(origin.module);
  if (origin.is_backward) text += text.empty() ? "backward" : " backward";
  if (origin.location.empty()) return text;
  return text.empty() ? std::string(origin.location)
                      : fmt::format("{} ({})", text, origin.location);
}

std::string_view kept_text(std::string_view text) {
  static auto* mutex = new std::mutex();
  static auto* texts = new std::unordered_set<std::string>();
  const std::lock_guard lock(*mutex);
  return *texts->emplace(text).first;
}

uint64_t OriginMemory::key_of_next(const OpSignature& signature) {
  ops_so_far_ = combine_signatures(ops_so_far_, signature.structure);
  return ops_so_far_;
}

const OpOrigin* OriginMemory::find(uint64_t key) const {
  const auto found = origins_.find(key);
  return found == origins_.end() ? nullptr : &found->second;
}

void OriginMemory::set(uint64_t key, const OpOrigin& origin) {
  if (origins_.size() >= kOriginsMax) origins_.clear();
  origins_[key] = origin;
}

}  // namespace teraio::iteration
