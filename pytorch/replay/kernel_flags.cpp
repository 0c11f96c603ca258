#include "replay/kernel_flags.h"

#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>

#include <iterator>
#include <utility>

namespace teraio::pytorch {
namespace {

at::Context& context() { return at::globalContext(); }

struct Choice {
  int64_t (*current)();
  void (*set)(int64_t value);
};

// A choice that `Get` and `Set`, members of at::Context, read and change.
template <auto Get, auto Set>
constexpr Choice choice() {
  using Value = std::remove_cvref_t<decltype((context().*Get)())>;
  return {[] { return static_cast<int64_t>((context().*Get)()); },
          [](int64_t value) { (context().*Set)(static_cast<Value>(value)); }};
}

template <auto Get, auto Set>
constexpr Choice reduction() {
  using Option = at::CuBLASReductionOption;
  return {[] { return static_cast<int64_t>((context().*Get)()); },
          [](int64_t value) {
            const auto option = static_cast<Option>(value);
            (context().*Set)(option == Option::AllowReducedPrecisionWithSplitK,
                             option != Option::DisallowReducedPrecisionDisallowSplitK);
          }};
}

// Choices that not every version of PyTorch has. Elsewhere they are always the same.
constexpr Choice kNone = {[] { return int64_t{0}; }, [](int64_t /*value*/) {}};

template <class Of>
constexpr Choice depthwise_kernel_of_cudnn() {
  if constexpr (requires(Of & of) { of.setCuDNNDepthwiseKernel(of.cudnnDepthwiseKernel()); })
    return choice<&Of::cudnnDepthwiseKernel, &Of::setCuDNNDepthwiseKernel>();
  return kNone;
}

template <class Of>
constexpr Choice grouped_products_of_cublas() {
  if constexpr (requires(Of & of) { of.setPreferCublasltGroupedGemm(true); })
    return choice<&Of::preferCublasltGroupedGemm, &Of::setPreferCublasltGroupedGemm>();
  return kNone;
}

template <class Of>
constexpr Choice kernels_compiled_ahead() {
  if constexpr (requires(Of & of) { of.setAllowNativeAot(true); })
    return choice<&Of::allowNativeAot, &Of::setAllowNativeAot>();
  return kNone;
}

using at::Context;

constexpr Choice kChoices[] = {
    {[] { return int64_t{context().deterministicAlgorithms()}; },
     [](int64_t is_on) {
       context().setDeterministicAlgorithms(is_on != 0,
                                            context().deterministicAlgorithmsWarnOnly());
     }},
    {[] { return int64_t{context().deterministicAlgorithmsWarnOnly()}; },
     [](int64_t is_on) {
       context().setDeterministicAlgorithms(context().deterministicAlgorithms(), is_on != 0);
     }},
    choice<&Context::deterministicFillUninitializedMemory,
           &Context::setDeterministicFillUninitializedMemory>(),
    choice<&Context::userEnabledMkldnn, &Context::setUserEnabledMkldnn>(),
    choice<&Context::deterministicMkldnn, &Context::setDeterministicMkldnn>(),
    choice<&Context::userEnabledNNPACK, &Context::setUserEnabledNNPACK>(),
    choice<&Context::allowFP16ReductionCPU, &Context::setAllowFP16ReductionCPU>(),
    choice<&Context::userEnabledCuDNN, &Context::setUserEnabledCuDNN>(),
    choice<&Context::benchmarkCuDNN, &Context::setBenchmarkCuDNN>(),
    choice<&Context::benchmarkLimitCuDNN, &Context::setBenchmarkLimitCuDNN>(),
    choice<&Context::deterministicCuDNN, &Context::setDeterministicCuDNN>(),
    choice<&Context::allowFP16AccumulationCuBLAS, &Context::setAllowFP16AccumulationCuBLAS>(),
    reduction<&Context::allowFP16ReductionCuBLAS, &Context::setAllowFP16ReductionCuBLAS>(),
    reduction<&Context::allowBF16ReductionCuBLAS, &Context::setAllowBF16ReductionCuBLAS>(),
    choice<&Context::linalgPreferredBackend, &Context::setLinalgPreferredBackend>(),
    choice<&Context::blasPreferredBackend, &Context::setBlasPreferredBackend>(),
    {[] { return int64_t{context()._SMCarveout_EXPERIMENTAL().value_or(-1)}; },
     [](int64_t count) {
       context()._setSMCarveout_EXPERIMENTAL(
           count < 0 ? std::nullopt : std::optional(static_cast<int32_t>(count)));
     }},
    depthwise_kernel_of_cudnn<Context>(),
    grouped_products_of_cublas<Context>(),
    kernels_compiled_ahead<Context>(),
    {[] { return static_cast<int64_t>(c10::get_default_dtype_as_scalartype()); },
     [](int64_t type) {
       c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(type)));
     }},
};

constexpr std::pair<at::Float32Backend, at::Float32Op> kPrecisions[] = {
    {at::Float32Backend::CUDA, at::Float32Op::MATMUL},
    {at::Float32Backend::CUDA, at::Float32Op::CONV},
    {at::Float32Backend::CUDA, at::Float32Op::RNN},
    {at::Float32Backend::MKLDNN, at::Float32Op::MATMUL},
    {at::Float32Backend::MKLDNN, at::Float32Op::CONV},
    {at::Float32Backend::MKLDNN, at::Float32Op::RNN},
};

}  // namespace

KernelFlags KernelFlags::current() {
  static_assert(std::size(kChoices) == kChoiceCount && std::size(kPrecisions) == kPrecisionCount);
  KernelFlags flags;
  for (size_t i = 0; i < kChoiceCount; ++i) flags.choices_[i] = kChoices[i].current();
  for (size_t i = 0; i < kPrecisionCount; ++i)
    flags.precisions_[i] = context().float32Precision(kPrecisions[i].first, kPrecisions[i].second);
  return flags;
}

void KernelFlags::set() const {
  for (size_t i = 0; i < kChoiceCount; ++i)
    if (kChoices[i].current() != choices_[i]) kChoices[i].set(choices_[i]);
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
