// Attention with the signature of a GPU's memory-efficient kernel.
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>

#include "testing/cuda_emulation/operators/own_kernels.h"

namespace teraio::testing::emulated_cuda {
namespace {

using torch::jit::Stack;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kRowsPerBlock = 32;  // of the log-sum-exp that the backward gets

struct Attention {
  at::Tensor query, key, value, bias;  // the bias may be undefined
  bool is_causal;
  double scale;
};

at::Tensor tensor_or_none(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

double scale_of(const c10::IValue& scale, const at::Tensor& query) {
  return scale.isNone() ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : scale.toDouble();
}

// Several heads of the query may share one of the keys and values.
at::Tensor for_each_head(const at::Tensor& shared, const at::Tensor& query) {
  const int64_t sharing = query.size(1) / shared.size(1);
  return sharing == 1 ? shared : shared.repeat_interleave(sharing, 1);
}

at::Tensor sum_over_sharing(const at::Tensor& grads, const at::Tensor& shared) {
  if (grads.size(1) == shared.size(1)) return grads;
  return grads.unflatten(1, {shared.size(1), grads.size(1) / shared.size(1)}).sum(2);
}

Attention attention_of(const Stack& s, size_t query, size_t is_causal) {
  const at::Tensor& queries = s[query].toTensor();
  return {queries,
          for_each_head(s[query + 1].toTensor(), queries),
          for_each_head(s[query + 2].toTensor(), queries),
          tensor_or_none(s[query + 3]),
          s[is_causal].toBool(),
          scale_of(s[is_causal + 1], queries)};
}

at::Tensor scores_of(const Attention& a) {
  at::Tensor scores =
      at::matmul(a.query.to(at::kFloat), a.key.to(at::kFloat).transpose(-2, -1)) * a.scale;
  if (a.bias.defined()) scores = scores + a.bias;
  if (!a.is_causal) return scores;
  const at::Tensor past = at::ones({scores.size(-2), scores.size(-1)}, at::kBool).tril();
  return scores.masked_fill(past.logical_not(), -kInfinity);
}

// What dropout leaves of each probability: the same for the same seed.
at::Tensor kept_share(const at::Tensor& like, double dropout, int64_t seed) {
  const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return at::empty_like(like).bernoulli_(1 - dropout, generator) / (1 - dropout);
}

at::Tensor heads_inside(const at::Tensor& tensor) {
  return tensor.transpose(1, 2).contiguous().transpose(1, 2);
}

}  // namespace

// (query, key, value, bias, computes_sums, dropout, is_causal, scale)
void attend(Stack& s, const at::Generator& generator) {
  const Attention a = attention_of(s, 0, 6);
  const at::Tensor& query = a.query;
  const at::Tensor scores = scores_of(a);
  const at::Tensor sums = at::logsumexp(scores, {-1});
  at::Tensor shares = at::exp(scores - sums.unsqueeze(-1));
  const double dropout = s[5].toDouble();
  const auto seed = dropout == 0 ? 0 : static_cast<int64_t>(generator.current_seed() >> 1);
  if (dropout > 0) shares = shares * kept_share(shares, dropout, seed);
  const at::Tensor out = at::matmul(shares, a.value.to(at::kFloat)).to(query.scalar_type());
  const int64_t row_count =
      s[4].toBool() ? (query.size(2) + kRowsPerBlock - 1) / kRowsPerBlock * kRowsPerBlock : 0;
  at::Tensor kept_sums = at::full({query.size(0), query.size(1), row_count}, kInfinity, at::kFloat);
  if (row_count > 0) kept_sums.narrow(2, 0, query.size(2)).copy_(sums);
  s = {heads_inside(out), kept_sums, at::full({}, seed, at::kLong), at::zeros({}, at::kLong)};
}

// (grad, query, key, value, bias, out, sums, seed, offset, dropout, wanted, is_causal, scale)
void attend_backward(Stack& s, const at::Generator&) {
  const Attention a = attention_of(s, 1, 11);
  const at::Tensor& query = a.query;
  const at::Tensor sums = s[6].toTensor().narrow(2, 0, query.size(2)).unsqueeze(-1);
  const at::Tensor shares = at::exp(scores_of(a) - sums);
  const at::Tensor grad = s[0].toTensor().to(at::kFloat);
  const at::Tensor row_sums = (grad * s[5].toTensor().to(at::kFloat)).sum(-1, true);
  at::Tensor share_grads = at::matmul(grad, a.value.to(at::kFloat).transpose(-2, -1));
  at::Tensor kept_shares = shares;
  if (const double dropout = s[9].toDouble(); dropout > 0) {
    const at::Tensor kept = kept_share(shares, dropout, s[7].toTensor().item<int64_t>());
    share_grads = share_grads * kept;
    kept_shares = shares * kept;
  }
  const at::Tensor score_grads = shares * (share_grads - row_sums);
  const auto like = [](const at::Tensor& result, const at::Tensor& input) {
    return heads_inside(sum_over_sharing(result, input).to(input.scalar_type()));
  };
  const bool wants_bias = s[10].toBoolList()[3];
  const at::Tensor key_grads =
      at::matmul(score_grads.transpose(-2, -1), query.to(at::kFloat)) * a.scale;
  s = {like(at::matmul(score_grads, a.key.to(at::kFloat)) * a.scale, query),
       like(key_grads, s[2].toTensor()),
       like(at::matmul(kept_shares.transpose(-2, -1), grad), s[3].toTensor()),
       wants_bias ? score_grads.to(query.scalar_type()) : at::Tensor()};
}

}  // namespace teraio::testing::emulated_cuda
