#include "observe/typed_observer.h"

#include <ATen/Operators.h>
#include <torch/library.h>

#include <string>

namespace teraio::pytorch {
namespace {

template <bool kUsesBytes, class Op>
void observe_typed(torch::Library& library) {
  std::string name = Op::name;
  if (*Op::overload_name != '\0') name.append(".").append(Op::overload_name);
  library.impl(name.c_str(), TORCH_FN((TypedObserver<Op, kUsesBytes>::observe)));
}

template <class... Ops>
void observe_all_typed(torch::Library& library) {
  (observe_typed<true, Ops>(library), ...);
}

template <class... Ops>
void observe_all_without_bytes(torch::Library& library) {
  (observe_typed<false, Ops>(library), ...);
}

}  // namespace

namespace op = at::_ops;

// What trainings call most, by themselves and inside of other operators.
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) {
  // New tensors.
  observe_all_typed<op::clone, op::empty_like, op::empty_memory_format, op::empty_strided,
                    op::full_like, op::new_zeros, op::ones_like, op::zeros, op::zeros_like>(
      library);
  // Views, and what calls another operator where it has to copy.
  observe_all_without_bytes<
      op::_reshape_alias, op::_unsafe_view, op::alias, op::as_strided, op::chunk, op::contiguous,
      op::detach, op::expand, op::flatten_using_ints, op::lift_fresh, op::narrow, op::permute,
      op::reshape, op::resolve_conj, op::resolve_neg, op::select_int, op::slice_Tensor,
      op::split_Tensor, op::squeeze_dim, op::t, op::to_device, op::to_dtype, op::to_dtype_layout,
      op::transpose_int, op::unflatten_int, op::unsqueeze, op::view, op::view_as>(library);
  // What calls others for all that it does.
  observe_all_without_bytes<op::linear, op::log_softmax_int, op::matmul, op::softmax_int>(library);
  // Copies and conversions.
  observe_all_typed<op::_to_copy, op::copy_, op::fill__Scalar, op::result_type_Tensor, op::zero_>(
      library);
  // Arithmetic.
  observe_all_typed<op::add_Scalar, op::add_Tensor, op::add__Scalar, op::add__Tensor,
                    op::div_Tensor, op::div__Tensor, op::mul_Scalar, op::mul_Tensor,
                    op::mul__Scalar, op::mul__Tensor, op::neg, op::pow_Tensor_Scalar, op::rsqrt,
                    op::sqrt, op::sub_Tensor>(library);
  // Reductions and selections.
  observe_all_typed<op::cat, op::gather, op::index_Tensor, op::masked_fill_Scalar, op::mean_dim,
                    op::sum, op::sum_dim_IntList, op::where_self>(library);
  // Matrix products.
  observe_all_typed<op::addmm, op::baddbmm, op::bmm, op::mm>(library);
  // Layers.
  observe_all_typed<op::_log_softmax, op::_log_softmax_backward_data, op::_softmax,
                    op::_softmax_backward_data, op::cross_entropy_loss, op::embedding,
                    op::embedding_dense_backward, op::gelu, op::gelu_backward, op::layer_norm,
                    op::native_layer_norm, op::native_layer_norm_backward, op::nll_loss_backward,
                    op::nll_loss_forward, op::relu, op::rms_norm, op::scaled_dot_product_attention,
                    op::sigmoid, op::silu, op::silu_backward, op::tanh, op::threshold_backward>(
      library);
}

}  // namespace teraio::pytorch
