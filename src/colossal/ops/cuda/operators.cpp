// Registers the GPU kernels of kernels.h as implementations of Colossal's operators.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/max.h>
#include <ATen/ops/tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "colossal/ops/activation.h"
#include "colossal/ops/attention/attention_rule.h"
#include "colossal/ops/cuda/kernels.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/aten_fallback_activation.h"
#include "colossal/ops/fallback/fallbacks.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/upload.h"

namespace colossal::ops::cuda {
namespace {

// Makes the tensor's GPU the current one, and checks after the call that the kernel has started.
template <typename Call>
void launch(const at::Tensor& on, const Call& call) {
  const c10::cuda::CUDAGuard device(on.device());
  call(c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void adamw_(const at::Tensor& master, const std::optional<at::Tensor>& working,
            const at::Tensor& first_moment, const at::Tensor& second_moment,
            const at::Tensor& gradient, double gradient_scale, double beta1, double beta2,
            double decay, double step_size, double root_correction, double epsilon) {
  const kernels::AdamWArrays arrays =
      adamw_arrays(master, working, first_moment, second_moment, gradient);
  const kernels::AdamWFactors factors{gradient_scale, beta1,           beta2,  decay,
                                      step_size,      root_correction, epsilon};
  launch(master, [&](cudaStream_t stream) { adamw(arrays, master.numel(), factors, stream); });
}

at::Tensor masked(const at::Tensor& x, double probability, int64_t key, at::IntArrayRef sample_ids,
                  const at::Tensor& positions, int64_t channel_begin) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = at::empty_like(from);
  if (x.numel() == 0) return to;
  const at::Tensor samples = upload(at::tensor(sample_ids, at::kLong), x.device());
  const at::Tensor places = upload(positions, x.device()).contiguous();
  const int64_t rows = x.size(0) * x.size(1);
  const DropoutRows drawn{.key = unpack_key(key),
                          .rule = dropout_rule(probability),
                          .sample_ids = samples.const_data_ptr<int64_t>(),
                          .positions = places.const_data_ptr<int64_t>(),
                          .sequence = x.size(1),
                          .num_positions = places.numel(),
                          .rows = rows,
                          .channels = x.numel() / rows,
                          .channel_begin = channel_begin};
  launch(x, [&](cudaStream_t stream) {
    dropout(drawn, from.const_data_ptr(), to.mutable_data_ptr(), element_type(x.scalar_type()),
            stream);
  });
  return to;
}

Logits logits_of(const at::Tensor& logits) {
  return {logits.mutable_data_ptr(), element_type(logits.scalar_type()), logits.size(0),
          logits.size(1), logits.stride(0)};
}

at::Tensor statistics(const at::Tensor& logits, const at::Tensor& labels) {
  const auto wide = logits.options().dtype(compute_type(logits.scalar_type()));
  const at::Tensor found = at::empty({3, logits.size(0)}, wide);
  launch(logits, [&](cudaStream_t stream) {
    softmax_statistics(logits_of(logits), labels.const_data_ptr<int64_t>(),
                       found[0].mutable_data_ptr(), found[1].mutable_data_ptr(),
                       found[2].mutable_data_ptr(), stream);
  });
  return found;
}

void to_gradient(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& ignored,
                 const at::Tensor& statistics, double soft_cap) {
  const at::Tensor rows = statistics.contiguous();
  launch(logits, [&](cudaStream_t stream) {
    cross_entropy_gradient(logits_of(logits), labels.const_data_ptr<int64_t>(),
                           ignored.const_data_ptr<bool>(), rows[0].const_data_ptr(),
                           rows[1].const_data_ptr(), soft_cap, stream);
  });
}

std::optional<Gate> gate_of(int64_t activation) {
  switch (static_cast<Activation>(activation)) {
    case Activation::silu:
      return Gate::silu;
    case Activation::gelu_tanh:
      return Gate::gelu_tanh;
    default:
      return std::nullopt;
  }
}

at::Tensor gated(const at::Tensor& gate_up, int64_t activation) {
  const std::optional<Gate> gate = gate_of(activation);
  if (!gate) return aten_fallback::gated_activation(gate_up, activation);
  const at::Tensor x = gate_up.contiguous();
  std::vector<int64_t> sizes = x.sizes().vec();
  const int64_t features = sizes.back() /= 2;
  at::Tensor y = at::empty(sizes, x.options());
  if (features == 0) return y;
  launch(x, [&](cudaStream_t stream) {
    gated_activation(*gate, x.const_data_ptr(), y.mutable_data_ptr(), element_type(x.scalar_type()),
                     y.numel() / features, features, stream);
  });
  return y;
}

at::Tensor gated_backward(const at::Tensor& given_gradient, const at::Tensor& gate_up,
                          int64_t activation) {
  const std::optional<Gate> gate = gate_of(activation);
  if (!gate) return aten_fallback::gated_activation_backward(given_gradient, gate_up, activation);
  const at::Tensor gradient = given_gradient.contiguous(), x = gate_up.contiguous();
  at::Tensor result = at::empty_like(x);
  const int64_t features = gradient.size(-1);
  if (features == 0) return result;
  launch(x, [&](cudaStream_t stream) {
    gated_activation_backward(*gate, gradient.const_data_ptr(), x.const_data_ptr(),
                              result.mutable_data_ptr(), element_type(x.scalar_type()),
                              gradient.numel() / features, features, stream);
  });
  return result;
}

at::Tensor rotary(const at::Tensor& given, const at::Tensor& positions,
                  const at::Tensor& frequencies, int64_t rotated_heads, bool interleaved,
                  double factor, bool backward) {
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  const at::ScalarType type = compute_type(x.scalar_type());
  const at::Tensor angles = positions.unsqueeze(-1) * frequencies;
  const at::Tensor cosines = angles.cos().mul_(factor).to(type).contiguous();
  const at::Tensor sines = angles.sin().mul_(backward ? -factor : factor).to(type).contiguous();
  const kernels::RotatedHeads heads{.count = rotated_heads,
                                    .size = x.size(3),
                                    .half = frequencies.size(0),
                                    .interleaved = interleaved};
  launch(x, [&](cudaStream_t stream) {
    rotate(x.const_data_ptr(), cosines.const_data_ptr(), sines.const_data_ptr(),
           y.mutable_data_ptr(), element_type(x.scalar_type()), heads, x.size(0) * x.size(1),
           x.size(2), positions.numel(), stream);
  });
  return y;
}

const float* data_or_null(const std::optional<at::Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<float>() : nullptr;
}

// Returns how many blocks of threads share the keys of a token, so that the blocks of all tokens
// keep a GPU busy, and each still has some hundred keys.
int64_t splits_of(int64_t blocks, int64_t most_keys) {
  constexpr int64_t kBusy = 512, kKeysOfSplit = 256;
  const int64_t most = std::max<int64_t>(1, most_keys / kKeysOfSplit);
  return std::clamp<int64_t>(kBusy / std::max<int64_t>(1, blocks), 1, most);
}

// Merges the attention to each split's keys. outputs: [splits, tokens, heads, size]; logsumexps:
// [splits, tokens, heads]. sinks: [heads].
std::tuple<at::Tensor, at::Tensor> merge(const at::Tensor& outputs, const at::Tensor& logsumexps,
                                         const std::optional<at::Tensor>& sinks,
                                         at::ScalarType type) {
  if (outputs.size(0) == 1 && !sinks) return {outputs[0].to(type), logsumexps[0]};
  at::Tensor total = at::logsumexp(logsumexps, {0});
  if (sinks) total = at::logaddexp(total, sinks->to(total.scalar_type()));
  const at::Tensor weights = (logsumexps - total).exp_().unsqueeze(-1);
  return {(outputs * weights).sum(0).to(type), total};
}

std::tuple<at::Tensor, at::Tensor> attention_to_pages(
    const at::Tensor& given, const at::Tensor& keys, const at::Tensor& values,
    const std::optional<at::Tensor>& key_scales, const std::optional<at::Tensor>& value_scales,
    const at::Tensor& tables, const at::Tensor& sequences, const at::Tensor& positions,
    int64_t longest, const std::optional<at::Tensor>& sinks, at::IntArrayRef rule_integers,
    at::ArrayRef<double> rule_numbers, const std::optional<at::Tensor>& relative_bias) {
  const int64_t head = std::max(given.size(2), values.size(3));
  if (head > kLargestValue || given.size(0) == 0 || relative_bias) {
    if (given.size(0) > 0) {
      count_fallback(relative_bias
                         ? "attention to pages with a relative bias"
                         : fmt::format("attention to pages of heads of {} numbers", head));
    }
    return aten_fallback::paged_attention(given, keys, values, key_scales, value_scales, tables,
                                          sequences, positions, longest, sinks, rule_integers,
                                          rule_numbers, relative_bias);
  }
  const AttentionRule rule = AttentionRule::unpacked(rule_integers, rule_numbers);
  const at::Tensor query = given.contiguous();
  const at::Device device = query.device();
  const auto on_gpu = [&](const at::Tensor& host) { return upload(host, device).contiguous(); };
  const at::Tensor all_tables = on_gpu(tables), all_sequences = on_gpu(sequences),
                   all_positions = on_gpu(positions);
  const at::Tensor slopes =
      rule.alibi_slopes.empty() ? at::Tensor() : on_gpu(at::tensor(rule.alibi_slopes, at::kDouble));
  const int64_t most_keys = rule.window > 0 ? std::min(longest, rule.window) : longest;
  const int64_t tokens = query.size(0), heads = query.size(1), kv_heads = keys.size(1);
  const PagedAttention problem{
      .query = query.const_data_ptr(),
      .keys = keys.const_data_ptr(),
      .values = values.const_data_ptr(),
      .type = element_type(query.scalar_type()),
      .key_scales = data_or_null(key_scales),
      .value_scales = data_or_null(value_scales),
      .tables = all_tables.const_data_ptr<int64_t>(),
      .sequences = all_sequences.const_data_ptr<int64_t>(),
      .positions = all_positions.const_data_ptr<int64_t>(),
      .alibi_slopes = slopes.defined() ? slopes.const_data_ptr<double>() : nullptr,
      .tokens = tokens,
      .heads = heads,
      .kv_heads = kv_heads,
      .head_size = query.size(2),
      .value_size = values.size(3),
      .page_size = values.size(2),
      .pages_per_sequence = tables.size(1),
      .window = rule.window,
      .scale = rule.scale,
      .soft_cap = rule.soft_cap,
      .splits = splits_of(tokens * kv_heads, most_keys)};
  const auto wide = query.options().dtype(compute_type(query.scalar_type()));
  const at::Tensor outputs = at::empty({problem.splits, tokens, heads, problem.value_size}, wide);
  const at::Tensor logsumexps = at::empty({problem.splits, tokens, heads}, wide);
  launch(query, [&](cudaStream_t stream) {
    paged_attention(problem, outputs.mutable_data_ptr(), logsumexps.mutable_data_ptr(), stream);
  });
  return merge(outputs, logsumexps, sinks, query.scalar_type());
}

void multiply_by_codes(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales,
                       const std::optional<at::Tensor>& zeros, int64_t type, int64_t group,
                       const at::Tensor& y) {
  const at::Tensor rows = x.contiguous(), wide_scales = scales.to(at::kFloat).contiguous();
  const CodeProduct product{.x = rows.const_data_ptr(),
                            .y = y.mutable_data_ptr(),
                            .type = element_type(x.scalar_type()),
                            .rows = x.size(0),
                            .inputs = x.size(1),
                            .outputs = codes.size(0),
                            .y_stride = y.stride(0),
                            .code_type = static_cast<int>(type),
                            .codes = codes.const_data_ptr<uint8_t>(),
                            .row_bytes = codes.size(1),
                            .group = group,
                            .groups = scales.size(1),
                            .scales = wide_scales.const_data_ptr<float>(),
                            .zeros = zeros ? zeros->const_data_ptr<uint8_t>() : nullptr};
  launch(x, [&](cudaStream_t stream) { code_product(product, stream); });
}

TORCH_LIBRARY_IMPL(colossal, CUDA, m) {
  m.impl("code_product", multiply_by_codes);
  m.impl("paged_attention", attention_to_pages);
  m.impl("gated_activation", gated);
  m.impl("gated_activation_backward", gated_backward);
  m.impl("rotary", rotary);
  m.impl("adamw_", adamw_);
  m.impl("dropout", masked);
  m.impl("softmax_statistics", statistics);
  m.impl("cross_entropy_gradient_", to_gradient);
}

}  // namespace
}  // namespace colossal::ops::cuda
