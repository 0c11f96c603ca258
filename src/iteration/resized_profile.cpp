#include "iteration/resized_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
namespace teraio::iteration {
namespace {

bool contains(const std::vector<trace::TensorIndex>& tensors, trace::TensorIndex tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

// Which arguments an op reads depends on what a replay of it has by value (Recorder::kind_of()),
// and hence on sizes: the arguments that the op names tell whether it is the same.
std::vector<trace::TensorIndex> reads_inside(const Profile& profile, size_t op) {
  std::vector<trace::TensorIndex> reads = profile.trace.ops[op].reads;
  std::erase_if(reads,
                [&](trace::TensorIndex tensor) { return contains(profile.touches[op], tensor); });
  return reads;
}

bool have_same_uses(const Profile& a, const Profile& b) {
  for (size_t op = 0; op < a.trace.ops.size(); ++op)
    if (a.trace.ops[op].writes != b.trace.ops[op].writes ||
        reads_inside(a, op) != reads_inside(b, op))
      return false;
  return true;
}

std::vector<bool> used_tensors(const trace::Trace& trace) {
  std::vector<bool> is_used(trace.tensors.size());
  for (const trace::Op& op : trace.ops)
    for (const auto* tensors : {&op.reads, &op.writes})
      for (const trace::TensorIndex tensor : *tensors) is_used[static_cast<size_t>(tensor)] = true;
  return is_used;
}

// A plan for both profiles must keep what either of them reads until it is read.
void add_reads(Profile& profile, const Profile& other) {
  const std::vector<bool> is_used = used_tensors(profile.trace);
  for (size_t i = 0; i < profile.trace.ops.size(); ++i) {
    trace::Op& op = profile.trace.ops[i];
    for (const trace::TensorIndex tensor : other.trace.ops[i].reads)
      if (!contains(op.reads, tensor)) op.reads.push_back(tensor);
    for (const trace::TensorIndex tensor : other.trace.ops[i].frees)
      if (!is_used[static_cast<size_t>(tensor)]) op.frees.push_back(tensor);
  }
}

}  // namespace

bool are_alike(const Profile& a, const Profile& b) {
  const auto is_same_op = [](const OpSignature& x, const OpSignature& y) {
    return x.structure == y.structure;
  };
  return a.touches == b.touches && a.births == b.births &&
         std::ranges::equal(a.signatures, b.signatures, is_same_op) && have_same_uses(a, b) &&
         std::ranges::equal(a.trace.tensors, b.trace.tensors, {}, &trace::Tensor::persistent,
                            &trace::Tensor::persistent);
}

Profile envelope(const Profile& a, const Profile& b) {
  Profile profile = a;
  std::vector<trace::Tensor>& tensors = profile.trace.tensors;
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i].size_bytes = std::max(tensors[i].size_bytes, b.trace.tensors[i].size_bytes);
  std::vector<trace::Op>& ops = profile.trace.ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    const trace::Op& op = b.trace.ops[i];
    ops[i].duration_ns = std::max(ops[i].duration_ns, op.duration_ns);
    ops[i].workspace_bytes = std::max(ops[i].workspace_bytes, op.workspace_bytes);
    ops[i].replayable = ops[i].replayable && op.replayable;
  }
  add_reads(profile, b);
  profile.untouched_bytes = std::max(profile.untouched_bytes, b.untouched_bytes);
  profile.flops.clear();
  const std::string& name = a.trace.name;
  profile.trace.name = fmt::format("{}, resized to {} bytes",
                                   name.substr(0, name.find(", resized")), born_bytes(profile));
  return profile;
}

int64_t excess_bytes(const Profile& profile, const Profile& model) {
  int64_t total_bytes = 0;
  for (size_t i = 0; i < profile.trace.tensors.size(); ++i)
    total_bytes += std::max<int64_t>(
        0, profile.trace.tensors[i].size_bytes - model.trace.tensors[i].size_bytes);
  return total_bytes;
}

int64_t born_bytes(const Profile& profile) {
  int64_t total_bytes = 0;
  for (const trace::Tensor& tensor : profile.trace.tensors)
    if (!tensor.persistent) total_bytes += tensor.size_bytes;
  return total_bytes;
}

int64_t bytes_at(const Profile& profile, trace::OpIndex op, size_t count) {
  const std::vector<trace::TensorIndex>& touches = profile.touches[static_cast<size_t>(op)];
  int64_t total_bytes = 0;
  for (size_t i = 0; i < std::min(count, touches.size()); ++i) {
    const trace::Tensor& tensor = profile.trace.tensors[static_cast<size_t>(touches[i])];
    if (!tensor.persistent) total_bytes += tensor.size_bytes;
  }
  return total_bytes;
}

}  // namespace teraio::iteration
