#include "learn/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "iteration/signature.h"

namespace teraio::learn {

void Recorder::start(uint64_t first_new_id) {
  ++epoch_;
  first_new_id_ = first_new_id;
  ops_.clear();
  events_.clear();
  tensors_.clear();
  flops_.clear();
}

trace::TensorIndex Recorder::index_of(engine::LiveTensor& tensor) {
  if (is_recorded(tensor)) return tensor.record.index;
  tensor.record.epoch = epoch_;
  tensor.record.index = static_cast<trace::TensorIndex>(tensors_.size());
  trace::Tensor& recorded = tensors_.emplace_back();
  recorded.id = static_cast<int64_t>(tensor.id);
  recorded.size_bytes = tensor.size_bytes;
  recorded.kind = trace::TensorKind::kActivation;
  return tensor.record.index;
}

// An input that a replay has by value is no input of the op in the trace, so that the program may
// drop it.
Recorder::EventKind Recorder::kind_of(const engine::Use& use, const OpRecord& record) {
  if (use.is_write) return EventKind::kWrite;
  if (!record.is_replayable) return EventKind::kRead;
  const auto found =
      std::find(record.replay_inputs.begin(), record.replay_inputs.end(), use.tensor);
  return found == record.replay_inputs.end() ? EventKind::kValue : EventKind::kRead;
}

void Recorder::record_op(const OpRecord& record) {
  for (const engine::Use& use : record.uses)
    events_.push_back({index_of(*use.tensor), kind_of(use, record)});
  for (engine::LiveTensor* birth : record.births) {
    if (is_recorded(*birth)) continue;  // a result of the op, already among its uses
    events_.push_back({index_of(*birth), EventKind::kBirth});
  }
  if (!record.nested_uses.empty()) record_nested_uses(record);
  if (record.origin.is_known()) name_births(record);
  if (record.flops != nullptr)
    for (const auto& [precision, count] : *record.flops) flops_[precision] += count;
  ops_.push_back({record.name, record.signature, record.input_count,
                  std::max<int64_t>(record.duration_ns, 0),
                  std::max<int64_t>(record.workspace_bytes, 0), record.is_replayable, record.origin,
                  events_.size()});
}

void Recorder::name_births(const OpRecord& record) {
  const std::string name = text_of(record.origin);
  for (const engine::LiveTensor* birth : record.births)
    tensors_[static_cast<size_t>(birth->record.index)].name = name;
}

// A trace names each tensor of an op once.
void Recorder::record_nested_uses(const OpRecord& record) {
  const auto names = [](std::span<const engine::Use> uses, const engine::LiveTensor* tensor) {
    return std::ranges::find(uses, tensor, &engine::Use::tensor) != uses.end();
  };
  for (size_t i = 0; i < record.nested_uses.size(); ++i) {
    engine::LiveTensor* tensor = record.nested_uses[i].tensor;
    if (names(record.uses, tensor) || names(record.nested_uses.first(i), tensor)) continue;
    const bool is_written = std::ranges::any_of(record.nested_uses, [&](const engine::Use& use) {
      return use.tensor == tensor && use.is_write;
    });
    events_.push_back(
        {index_of(*tensor), is_written ? EventKind::kNestedWrite : EventKind::kNestedRead});
  }
}

void Recorder::record_death(engine::LiveTensor& tensor) {
  if (tensor.record.is_described) descriptions_.erase(tensor.id);
  if (!is_recorded(tensor) || ops_.empty()) return;
  events_.push_back({tensor.record.index, EventKind::kFree});
  ops_.back().events_end = events_.size();
}

void Recorder::describe(engine::LiveTensor& tensor, trace::TensorKind kind, std::string name) {
  tensor.record.is_described = true;
  Description& description = descriptions_[tensor.id];
  description.kind = kind;
  if (!name.empty()) description.name = std::move(name);
}

void Recorder::apply_descriptions(trace::Trace& trace) const {
  for (trace::Tensor& tensor : trace.tensors) {
    const auto found = descriptions_.find(static_cast<uint64_t>(tensor.id));
    if (found == descriptions_.end()) continue;
    tensor.kind = found->second.kind;
    if (!found->second.name.empty()) tensor.name = found->second.name;
  }
}

// Returns which tensors are used in the trace.
std::vector<bool> Recorder::append_ops(iteration::Profile& profile) const {
  std::vector<bool> is_used(tensors_.size());
  size_t event = 0;
  for (const RecordedOp& recorded : ops_) {
    const trace::OpIndex op_index = profile.op_count();
    trace::Op& op = profile.trace.ops.emplace_back();
    std::vector<trace::TensorIndex>& touches = profile.touches.emplace_back();
    op.name = std::string(recorded.name);
    op.duration_ns = recorded.duration_ns;
    op.workspace_bytes = recorded.workspace_bytes;
    op.replayable = recorded.is_replayable;
    profile.signatures.push_back(recorded.signature);
    profile.origins.push_back(recorded.origin);
    for (; event < recorded.events_end; ++event) {
      const auto [tensor, kind] = events_[event];
      if (kind == EventKind::kFree) {
        if (is_used[static_cast<size_t>(tensor)]) op.frees.push_back(tensor);
        continue;
      }
      if (kind != EventKind::kValue) is_used[static_cast<size_t>(tensor)] = true;
      const bool is_argument_or_result =
          kind == EventKind::kRead || kind == EventKind::kValue || kind == EventKind::kWrite;
      if (is_argument_or_result) touches.push_back(tensor);
      if (kind == EventKind::kBirth) profile.births[op_index].push_back(tensor);
      if (kind == EventKind::kRead || kind == EventKind::kNestedRead) {
        op.reads.push_back(tensor);
      } else if (kind != EventKind::kValue) {
        op.writes.push_back(tensor);
      }
    }
  }
  return is_used;
}

// Of a name, up to the sizes.
constexpr size_t kOpsLength = std::string_view("iteration 0123456789abcdef ").size();

// Equal for equal iterations, in every process: the ops first, then their sizes (names_same_ops()).
std::string name_of(std::span<const iteration::OpSignature> signatures) {
  uint64_t ops = iteration::kEmptySignature;
  uint64_t sizes = iteration::kEmptySignature;
  for (const iteration::OpSignature& signature : signatures) {
    ops = iteration::combine_signatures(ops, signature.structure);
    sizes = iteration::combine_signatures(sizes, signature.sizes);
  }
  return fmt::format("iteration {:016x} {:016x}", ops, sizes);
}

// As structure_of() does for the op of a running program.
void Recorder::add_identities(iteration::Profile& profile) const {
  for (size_t op = 0; op < ops_.size(); ++op) {
    const std::vector<trace::TensorIndex>& touches = profile.touches[op];
    uint64_t& structure = profile.signatures[op].structure;
    for (size_t i = 0; i < std::min(ops_[op].input_count, touches.size()); ++i) {
      const trace::Tensor& tensor = profile.trace.tensors[static_cast<size_t>(touches[i])];
      if (tensor.persistent && tensor.size_bytes >= identity_bytes_)
        structure = iteration::add_to_signature(structure, static_cast<uint64_t>(tensor.id));
    }
  }
}

iteration::Profile Recorder::finish(
    std::span<engine::LiveTensor* const> alive,
    const std::function<bool(const engine::LiveTensor&)>& is_movable) {
  iteration::Profile profile;
  const std::vector<bool> is_used = append_ops(profile);
  profile.trace.tensors = tensors_;
  profile.flops = flops_;
  for (engine::LiveTensor* tensor : alive) {
    if (tensor->life == engine::Life::kKeptForRecipes) continue;  // the program has dropped it
    // Not what the program has dropped and another stream still uses.
    const bool is_kept = tensor->id < first_new_id_ && tensor->life == engine::Life::kAlive;
    if (!is_recorded(*tensor)) {
      if (is_kept && !is_movable(*tensor)) profile.untouched_bytes += tensor->size_bytes;
    } else if (is_kept) {
      profile.trace.tensors[static_cast<size_t>(tensor->record.index)].persistent = true;
      tensor->record.persistence = tensor->size_bytes >= identity_bytes_
                                       ? engine::RecordState::Persistence::kIdentifiesOps
                                       : engine::RecordState::Persistence::kSmall;
    } else if (is_used[static_cast<size_t>(tensor->record.index)]) {
      profile.trace.ops.back().frees.push_back(tensor->record.index);
    }
  }
  apply_descriptions(profile.trace);
  profile.trace.source = "profiled";
  profile.trace.name = name_of(profile.signatures);
  add_identities(profile);  // ids differ from process to process, and the name must not
  return profile;
}

bool names_recording(std::string_view name) {
  return name.starts_with("iteration ") && name.size() > kOpsLength && name[kOpsLength - 1] == ' ';
}

bool names_same_ops(std::string_view a, std::string_view b) {
  return names_recording(a) && a.substr(0, kOpsLength) == b.substr(0, kOpsLength);
}

}  // namespace teraio::learn
