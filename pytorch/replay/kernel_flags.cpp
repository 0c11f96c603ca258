#include "replay/kernel_flags.h"

#include <iterator>
#include <utility>

namespace teraio::pytorch {
namespace {

at::Context& context() { return at::globalContext(); }

struct Switch {
  bool (*is_on)();
  void (*turn)(bool is_on);
};

constexpr Switch kSwitches[] = {
    {[] { return context().deterministicAlgorithms(); },
     [](bool is_on) {
       context().setDeterministicAlgorithms(is_on, context().deterministicAlgorithmsWarnOnly());
     }},
    {[] { return context().deterministicAlgorithmsWarnOnly(); },
     [](bool is_on) {
       context().setDeterministicAlgorithms(context().deterministicAlgorithms(), is_on);
     }},
    {[] { return context().userEnabledMkldnn(); },
     [](bool is_on) { context().setUserEnabledMkldnn(is_on); }},
    {[] { return context().deterministicMkldnn(); },
     [](bool is_on) { context().setDeterministicMkldnn(is_on); }},
    {[] { return context().userEnabledNNPACK(); },
     [](bool is_on) { context().setUserEnabledNNPACK(is_on); }},
    {[] { return context().userEnabledCuDNN(); },
     [](bool is_on) { context().setUserEnabledCuDNN(is_on); }},
    {[] { return context().benchmarkCuDNN(); },
     [](bool is_on) { context().setBenchmarkCuDNN(is_on); }},
    {[] { return context().deterministicCuDNN(); },
     [](bool is_on) { context().setDeterministicCuDNN(is_on); }},
    {[] { return context().allowFP16AccumulationCuBLAS(); },
     [](bool is_on) { context().setAllowFP16AccumulationCuBLAS(is_on); }},
};

constexpr std::pair<at::Float32Backend, at::Float32Op> kPrecisions[] = {
    {at::Float32Backend::CUDA, at::Float32Op::MATMUL},
    {at::Float32Backend::CUDA, at::Float32Op::CONV},
    {at::Float32Backend::CUDA, at::Float32Op::RNN},
    {at::Float32Backend::MKLDNN, at::Float32Op::MATMUL},
    {at::Float32Backend::MKLDNN, at::Float32Op::CONV},
    {at::Float32Backend::MKLDNN, at::Float32Op::RNN},
};

bool is_reduced(at::CuBLASReductionOption option) {
  return option == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
}

bool is_split(at::CuBLASReductionOption option) {
  return option != at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK;
}

}  // namespace

KernelFlags KernelFlags::current() {
  static_assert(std::size(kSwitches) == kSwitchCount && std::size(kPrecisions) == kPrecisionCount);
  KernelFlags flags;
  for (size_t i = 0; i < kSwitchCount; ++i) flags.switches_[i] = kSwitches[i].is_on();
  for (size_t i = 0; i < kPrecisionCount; ++i)
    flags.precisions_[i] = context().float32Precision(kPrecisions[i].first, kPrecisions[i].second);
  flags.float16_reduction_ = context().allowFP16ReductionCuBLAS();
  flags.bfloat16_reduction_ = context().allowBF16ReductionCuBLAS();
  return flags;
}

void KernelFlags::set() const {
  for (size_t i = 0; i < kSwitchCount; ++i)
    if (kSwitches[i].is_on() != switches_[i]) kSwitches[i].turn(switches_[i]);
  if (context().allowFP16ReductionCuBLAS() != float16_reduction_)
    context().setAllowFP16ReductionCuBLAS(is_reduced(float16_reduction_),
                                          is_split(float16_reduction_));
  if (context().allowBF16ReductionCuBLAS() != bfloat16_reduction_)
    context().setAllowBF16ReductionCuBLAS(is_reduced(bfloat16_reduction_),
                                          is_split(bfloat16_reduction_));
}

bool KernelFlags::has_current_precision(c10::DeviceType device) const {
  const auto backend =
      device == c10::DeviceType::CUDA ? at::Float32Backend::CUDA : at::Float32Backend::MKLDNN;
  for (size_t i = 0; i < kPrecisionCount; ++i)
    if (kPrecisions[i].first == backend &&
        context().float32Precision(backend, kPrecisions[i].second) != precisions_[i])
      return false;
  return true;
}

}  // namespace teraio::pytorch
