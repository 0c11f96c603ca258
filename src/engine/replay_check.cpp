#include "engine/replay_check.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "base/units.h"

namespace teraio::engine {
namespace {

constexpr int64_t kBufferBytes = 4 * kMiB;

}  // namespace

Result<uint64_t> ReplayCheck::hash_of(const LiveTensor& tensor) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(state.get());
  on_host_.resize(static_cast<size_t>(std::min(kBufferBytes, tensor.size_bytes)));
  for (int64_t offset = 0; offset < tensor.size_bytes; offset += kBufferBytes) {
    const int64_t size_bytes = std::min(kBufferBytes, tensor.size_bytes - offset);
    const Result<device::Event> copied =
        device_.copy_to_host(on_host_.data(), tensor.memory + offset, size_bytes, device_.record());
    if (!copied.ok()) return copied.status();
    TERAIO_RETURN_IF_ERROR(device_.wait(*copied));
    XXH3_64bits_update(state.get(), on_host_.data(), static_cast<size_t>(size_bytes));
  }
  return XXH3_64bits_digest(state.get());
}

Status ReplayCheck::note(LiveTensor& tensor) {
  const Result<uint64_t> hash = hash_of(tensor);
  if (!hash.ok()) return hash.status();
  tensor.replay.discarded_hash = *hash;
  return {};
}

Status ReplayCheck::compare(const LiveTensor& tensor, const LiveTensor& made) {
  const Result<uint64_t> hash = hash_of(made);
  if (!hash.ok()) return hash.status();
  if (*hash == tensor.replay.discarded_hash) {
    ++counters_.verified;
    return {};
  }
  ++counters_.differing;
  return Status(ErrorCode::kInternal,
                fmt::format("a replay has made other bytes than the program, for tensor {} ({}) of "
                            "{}: the training would go on with them. Train with --recompute off",
                            tensor.id, format_size(tensor.size_bytes),
                            tensor.replay.recipe->op->name_of_result(tensor.replay.result)));
}

}  // namespace teraio::engine
