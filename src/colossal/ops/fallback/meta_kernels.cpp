#include "colossal/ops/fallback/meta_kernels.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Returns {y, mean, rstd}. mean and rstd keep the normalized dims, with size 1. They are of the
// weight's type if that differs from x's (fp32 weights for a bf16 input), otherwise of x's type.
ThreeTensors native_layer_norm(const at::Tensor& x, c10::SymIntArrayRef normalized_shape,
                               const OptionalTensor& weight, const OptionalTensor&, double) {
  std::vector<int64_t> statistics = x.sizes().vec();
  std::fill(statistics.end() - static_cast<int64_t>(normalized_shape.size()), statistics.end(), 1);
  const bool mixed =
      weight.has_value() && weight->defined() && weight->scalar_type() != x.scalar_type();
  const auto options = x.options().dtype(mixed ? weight->scalar_type() : x.scalar_type());
  return {at::empty_like(x, at::MemoryFormat::Contiguous), at::empty(statistics, options),
          at::empty(statistics, options)};
}

ThreeTensors native_layer_norm_backward(const at::Tensor&, const at::Tensor& x, c10::SymIntArrayRef,
                                        const at::Tensor&, const at::Tensor&,
                                        const OptionalTensor& weight, const OptionalTensor& bias,
                                        std::array<bool, 3> needed) {
  const auto gradient_of = [](const OptionalTensor& parameter, bool wanted) {
    const bool there = wanted && parameter.has_value() && parameter->defined();
    return there ? at::empty_like(*parameter, at::MemoryFormat::Contiguous) : at::Tensor();
  };
  return {gradient_of(x, needed[0]), gradient_of(weight, needed[1]), gradient_of(bias, needed[2])};
}

at::Tensor index_select(const at::Tensor& x, int64_t dim, const at::Tensor& index) {
  std::vector<int64_t> sizes = x.sizes().vec();
  if (!sizes.empty()) sizes[at::maybe_wrap_dim(dim, x.dim())] = index.numel();
  return at::empty(sizes, x.options());
}

at::Tensor embedding_dense_backward(const at::Tensor& gradient, const at::Tensor&,
                                    c10::SymInt num_weights, c10::SymInt, bool) {
  return at::empty({num_weights.expect_int(), gradient.size(-1)}, gradient.options());
}

std::vector<int64_t> where_sizes(const at::Tensor& condition, const at::Tensor& x,
                                 const at::Tensor& other) {
  return at::infer_size(at::infer_size(condition.sizes(), x.sizes()), other.sizes());
}

at::Tensor where_self(const at::Tensor& condition, const at::Tensor& x, const at::Tensor& other) {
  return at::empty(where_sizes(condition, x, other), x.options().dtype(at::result_type(x, other)));
}

at::Tensor& where_self_out(const at::Tensor& condition, const at::Tensor& x,
                           const at::Tensor& other, at::Tensor& out) {
  at::native::resize_output(out, where_sizes(condition, x, other));
  return out;
}

at::Tensor& abs_out(const at::Tensor& x, at::Tensor& out) {
  at::native::resize_output(out, x.sizes());
  return out;
}

TwoTensors native_dropout(const at::Tensor& x, double, std::optional<bool>) {
  return {at::empty_like(x), at::empty_like(x, x.options().dtype(at::kBool))};
}

at::Tensor native_dropout_backward(const at::Tensor& gradient, const at::Tensor&, double) {
  return at::empty_like(gradient);
}

TwoTensors log_sigmoid_forward(const at::Tensor& x) {
  return {at::empty_like(x), at::empty_like(x)};
}

at::Tensor log_sigmoid_backward(const at::Tensor& gradient, const at::Tensor&, const at::Tensor&) {
  return at::empty_like(gradient);
}

at::Tensor flip(const at::Tensor& x, at::IntArrayRef) {
  return at::empty_like(x);
}

at::Tensor roll(const at::Tensor& x, c10::SymIntArrayRef, at::IntArrayRef) {
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

void fused_adamw_(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                  at::TensorList, double, double, double, double, double, bool, bool,
                  const OptionalTensor&, const OptionalTensor&) {}

void implement(torch::Library& library) {
  library.impl("native_layer_norm", native_layer_norm);
  library.impl("native_layer_norm_backward", native_layer_norm_backward);
  library.impl("index_select", index_select);
  library.impl("embedding_dense_backward", embedding_dense_backward);
  library.impl("where.self", where_self);
  library.impl("where.self_out", where_self_out);
  library.impl("abs.out", abs_out);
  library.impl("native_dropout", native_dropout);
  library.impl("native_dropout_backward", native_dropout_backward);
  library.impl("log_sigmoid_forward", log_sigmoid_forward);
  library.impl("log_sigmoid_backward", log_sigmoid_backward);
  library.impl("flip", flip);
  library.impl("roll", roll);
  library.impl("_fused_adamw_", fused_adamw_);
}

}  // namespace

void register_meta_kernels() {
  // Static: registrations last as long as their Library object, here until the process ends.
  static const torch::Library library = [] {
    torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    implement(aten);
    return aten;
  }();
  static_cast<void>(library);
}

}  // namespace colossal::ops
