#include "testing/cuda_emulation/nccl/call.h"

#include "testing/cuda_emulation/nccl/reduction.h"

namespace teraio::testing::emulated_nccl {
namespace {

Label label_of(const Call& call) {
  const bool is_transfer = call.kind == CallKind::kSend || call.kind == CallKind::kReceive;
  Label label;
  label.call = static_cast<int32_t>(is_transfer ? CallKind::kSend : call.kind);
  label.type = call.type;
  label.reduction = !is_reduction(call.kind) ? -1 : call.scalar.is_none() ? call.op : ncclNumOps;
  label.root = has_root(call.kind) ? call.root : -1;
  label.size_bytes = call.count * size_of(call.type);
  return label;
}

// The same to or from all ranks, at `stride_bytes` times their number.
std::vector<Piece> all_ranks(const Label& label, int count, size_t stride_bytes) {
  std::vector<Piece> pieces;
  for (int peer = 0; peer < count; ++peer) pieces.push_back({peer, peer * stride_bytes, label});
  return pieces;
}

}  // namespace

bool is_reduction(CallKind kind) {
  return kind == CallKind::kAllReduce || kind == CallKind::kReduce ||
         kind == CallKind::kReduceScatter;
}

bool has_root(CallKind kind) { return kind == CallKind::kBroadcast || kind == CallKind::kReduce; }

Exchange exchange_of(const Call& call, int rank, int count) {
  const Label label = label_of(call);
  const size_t bytes = label.size_bytes;
  const std::vector<Piece> whole = all_ranks(label, count, 0);
  const std::vector<Piece> divided = all_ranks(label, count, bytes);
  const std::vector<Piece> one = {{call.root, 0, label}};
  const bool is_root = call.root == rank;
  switch (call.kind) {
    case CallKind::kAllReduce:
      return {whole, whole, bytes, bytes};
    case CallKind::kBroadcast:
      return is_root ? Exchange{whole, one, bytes, bytes} : Exchange{{}, one, 0, bytes};
    case CallKind::kReduce:
      return is_root ? Exchange{one, whole, bytes, bytes} : Exchange{one, {}, bytes, 0};
    case CallKind::kAllGather:
      return {whole, divided, bytes, bytes * count};
    case CallKind::kReduceScatter:
      return {divided, whole, bytes * count, bytes};
    case CallKind::kAllToAll:
      return {divided, divided, bytes * count, bytes * count};
    case CallKind::kSend:
      return {one, {}, bytes, 0};
    case CallKind::kReceive:
      return {{}, one, 0, bytes};
  }
  return {};
}

}  // namespace teraio::testing::emulated_nccl
