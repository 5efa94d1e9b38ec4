// Operators that LibTorch has for CUDA only, or that differ there from the CPU's, written in other
// operators: each of these is a kernel on the emulated GPU.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

namespace colossal::emulated_gpu {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalSize = std::optional<c10::SymInt>;

at::ScalarType sum_type(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Attention of a batch, as LibTorch's flash attention defines it: tensors are [batch, sequence,
// heads, size], and the last query is at the position of the last key. Of a sequence of documents:
// the batch is 1, and `ends` says where each document begins, and where the last ends.
class FlashAttention {
 public:
  FlashAttention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& ends,
                 std::optional<double> scale, bool causal, const OptionalSize& left,
                 const OptionalSize& right)
      : query_(query),
        heads_(query.size(2)),
        kv_heads_(key.size(2)),
        scale_(scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))))),
        q_(by_head(query)),
        k_(by_head(key)),
        v_(by_head(value)) {
    scores_ = q_.matmul(k_.transpose(2, 3)) * scale_;
    const int64_t queries = query.size(1), keys = key.size(1);
    const auto options = at::TensorOptions().dtype(at::kLong).device(query.device());
    const Tensor distance = at::arange(keys, options).unsqueeze(0) -
                            (at::arange(queries, options) + (keys - queries)).unsqueeze(1);
    const auto hide = [&](const Tensor& hidden) {
      scores_ = scores_.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    };
    if (causal) hide(distance.gt(0));
    if (left && left->expect_int() >= 0) hide(distance.lt(-left->expect_int()));
    if (right && right->expect_int() >= 0) hide(distance.gt(right->expect_int()));
    if (ends.defined()) {
      const Tensor document = at::searchsorted(ends.to(at::kLong), at::arange(keys, options),
                                               /*out_int32=*/false, /*right=*/true);
      hide(document.unsqueeze(0).ne(document.unsqueeze(1)));
    }
  }

  // Returns the output and the log-sum-exp of the scores.
  std::pair<Tensor, Tensor> forward() const {
    const Tensor logsumexp = scores_.logsumexp({-1});
    return {as_given(weights(logsumexp).matmul(v_), heads_), logsumexp};
  }

  std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& gradient, const Tensor& output,
                                              const Tensor& logsumexp) const {
    const Tensor weights_of_keys = weights(logsumexp);
    const Tensor of_output = by_head(gradient);
    const Tensor of_weights = of_output.matmul(v_.transpose(2, 3));
    const Tensor of_scores =
        weights_of_keys * (of_weights - (of_output * by_head(output)).sum(-1, true)) * scale_;
    return {as_given(of_scores.matmul(k_), heads_),
            as_given(of_scores.transpose(2, 3).matmul(q_), kv_heads_),
            as_given(weights_of_keys.transpose(2, 3).matmul(of_output), kv_heads_)};
  }

 private:
  Tensor weights(const Tensor& logsumexp) const {
    return (scores_ - logsumexp.unsqueeze(-1)).exp().nan_to_num(0, 0, 0);
  }
  // [batch, sequence, any heads, size] -> [batch, query heads, sequence, size]
  Tensor by_head(const Tensor& x) const {
    return x.transpose(1, 2).to(sum_type(x)).repeat_interleave(heads_ / x.size(2), 1);
  }
  Tensor as_given(const Tensor& x, int64_t heads) const {
    const Tensor summed =
        heads == heads_ ? x
                        : x.view({x.size(0), heads, heads_ / heads, x.size(2), x.size(3)}).sum(2);
    return summed.transpose(1, 2).to(query_.scalar_type()).contiguous();
  }

  Tensor query_;
  int64_t heads_, kv_heads_;
  double scale_;
  Tensor q_, k_, v_, scores_;
};

Tensor in_batch(const Tensor& x, const Tensor& ends) {
  return ends.defined() ? x.unsqueeze(0) : x;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& query_ends,
    const OptionalTensor& /*key_ends*/, c10::SymInt /*queries*/, c10::SymInt /*keys*/,
    double dropout, bool causal, bool /*debug*/, std::optional<double> scale, OptionalSize left,
    OptionalSize right, const OptionalTensor& /*used*/, const OptionalTensor& /*slopes*/,
    const OptionalTensor& /*pages*/, std::optional<int64_t> /*splits*/) {
  TORCH_CHECK(dropout == 0, "emulated GPU: flash attention without dropout only");
  const Tensor ends = query_ends.value_or(Tensor());
  const auto [rows, sums] = FlashAttention(in_batch(query, ends), in_batch(key, ends),
                                           in_batch(value, ends), ends, scale, causal, left, right)
                                .forward();
  const Tensor output = ends.defined() ? rows.squeeze(0) : rows;
  const Tensor logsumexp = ends.defined() ? sums.squeeze(0) : sums;
  const auto none = [&](at::IntArrayRef size, at::ScalarType type) {
    return at::empty(size, query.options().dtype(type));
  };
  return {output, logsumexp, none({2}, at::kLong), none({0}, at::kLong),
          none({0}, query.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(
    const Tensor& gradient, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& output, const Tensor& logsumexp, const Tensor& ends, const Tensor& /*key_ends*/,
    c10::SymInt /*queries*/, c10::SymInt /*keys*/, double dropout, bool causal,
    const Tensor& /*random*/, const Tensor& /*unused*/, std::optional<double> scale,
    OptionalSize left, OptionalSize right) {
  TORCH_CHECK(dropout == 0, "emulated GPU: flash attention without dropout only");
  auto gradients =
      FlashAttention(in_batch(query, ends), in_batch(key, ends), in_batch(value, ends), ends, scale,
                     causal, left, right)
          .backward(in_batch(gradient, ends), in_batch(output, ends), in_batch(logsumexp, ends));
  if (ends.defined()) {
    auto& [of_query, of_key, of_value] = gradients;
    for (Tensor* each : {&of_query, &of_key, &of_value}) *each = each->squeeze(0);
  }
  return gradients;
}

bool there(const OptionalTensor& given) {
  return given && given->defined();
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, at::IntArrayRef /*shape*/,
                                    const OptionalTensor& weight, std::optional<double> epsilon) {
  const Tensor wide = x.to(sum_type(x));
  const Tensor inverse = (wide.square().mean({-1}, true) + epsilon.value_or(1e-6)).rsqrt();
  Tensor y = wide * inverse;
  if (there(weight)) y = y * weight->to(y.scalar_type());
  return {y.to(x.scalar_type()), inverse};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& gradient, const Tensor& x,
                                             at::IntArrayRef /*shape*/, const Tensor& inverse,
                                             const OptionalTensor& weight,
                                             std::array<bool, 2> wanted) {
  const Tensor normed = x.to(sum_type(x)) * inverse, wide = gradient.to(sum_type(x));
  const Tensor of_normed = there(weight) ? wide * weight->to(wide.scalar_type()) : wide;
  Tensor of_x, of_weight;
  if (wanted[0]) {
    of_x = (inverse * (of_normed - normed * (of_normed * normed).mean({-1}, true)))
               .to(x.scalar_type());
  }
  if (wanted[1] && there(weight)) {
    of_weight = (wide * normed).flatten(0, -2).sum(0).to(weight->scalar_type());
  }
  return {of_x, of_weight};
}

// The CPU's keeps statistics of narrow types in these types.
std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& x, at::IntArrayRef /*shape*/,
                                              const OptionalTensor& weight,
                                              const OptionalTensor& bias, double epsilon) {
  const Tensor wide = x.to(sum_type(x));
  const Tensor mean = wide.mean({-1}, true), centered = wide - mean;
  const Tensor inverse = (centered.square().mean({-1}, true) + epsilon).rsqrt();
  Tensor y = centered * inverse;
  if (there(weight)) y = y * weight->to(y.scalar_type());
  if (there(bias)) y = y + bias->to(y.scalar_type());
  return {y.to(x.scalar_type()), mean, inverse};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& gradient, const Tensor& x,
                                                       at::IntArrayRef /*shape*/,
                                                       const Tensor& mean, const Tensor& inverse,
                                                       const OptionalTensor& weight,
                                                       const OptionalTensor& bias,
                                                       std::array<bool, 3> wanted) {
  const Tensor normed = (x.to(sum_type(x)) - mean) * inverse, wide = gradient.to(sum_type(x));
  const Tensor of_normed = there(weight) ? wide * weight->to(wide.scalar_type()) : wide;
  Tensor of_x, of_weight, of_bias;
  if (wanted[0]) {
    of_x = (inverse * (of_normed - of_normed.mean({-1}, true) -
                       normed * (of_normed * normed).mean({-1}, true)))
               .to(x.scalar_type());
  }
  if (wanted[1] && there(weight)) {
    of_weight = (wide * normed).flatten(0, -2).sum(0).to(weight->scalar_type());
  }
  if (wanted[2] && there(bias)) of_bias = wide.flatten(0, -2).sum(0).to(bias->scalar_type());
  return {of_x, of_weight, of_bias};
}

// A product of narrow matrices into a wide sum.
Tensor& add_product(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType type,
                    const at::Scalar& beta, const at::Scalar& alpha, Tensor& out) {
  return out.copy_(self.to(type) * beta + at::mm(a.to(type), b.to(type)) * alpha);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_flash_attention_forward", flash_attention);
  library.impl("_flash_attention_backward", flash_attention_backward);
  library.impl("_fused_rms_norm", rms_norm);
  library.impl("_fused_rms_norm_backward", rms_norm_backward);
  library.impl("native_layer_norm", layer_norm);
  library.impl("native_layer_norm_backward", layer_norm_backward);
  library.impl("addmm.dtype_out", add_product);
}

}  // namespace
}  // namespace colossal::emulated_gpu
