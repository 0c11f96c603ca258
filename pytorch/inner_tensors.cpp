#include "inner_tensors.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

namespace teraio::pytorch {

// By their classes: a wrapper around a sparse tensor says that it is sparse too.
std::vector<at::Tensor> inner_tensors(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->is_python_dispatch()) return {};
  if (const auto* sparse = dynamic_cast<const at::SparseTensorImpl*>(impl))
    return {sparse->indices(), sparse->values()};
  if (const auto* compressed = dynamic_cast<const at::SparseCsrTensorImpl*>(impl))
    return {compressed->compressed_indices(), compressed->plain_indices(), compressed->values()};
  if (!impl->is_quantized()) return {};
  auto* quantized = dynamic_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl());
  if (quantized == nullptr) return {};
  const auto* by_channel =
      dynamic_cast<const at::PerChannelAffineQuantizer*>(quantized->quantizer().get());
  if (by_channel == nullptr) return {};
  return {by_channel->scales(), by_channel->zero_points()};
}

}  // namespace teraio::pytorch
