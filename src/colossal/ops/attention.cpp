#include "colossal/ops/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/ops/any_device.h"
#include "colossal/ops/blocked_attention.h"
#include "colossal/ops/dispatch.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What both operators take after their tensors.
struct Rule {
  bool causal;
  double scale;
  double dropout;
  int64_t random_key;
  std::vector<int64_t> sample_ids;
  int64_t head_begin;
};

// [batch, heads, sequence, columns] whose memory is [batch, sequence, heads, columns]: the heads of
// a token lie side by side for the projection that follows.
at::Tensor empty_heads(const at::Tensor& like, int64_t columns) {
  return at::empty({like.size(0), like.size(2), like.size(1), columns}, like.options())
      .transpose(1, 2);
}

at::Tensor empty_logsumexp(const at::Tensor& query) {
  const auto options = query.options().dtype(compute_type(query.scalar_type()));
  return at::empty({query.size(0), query.size(2), query.size(1)}, options).transpose(1, 2);
}

bool is_empty(const at::Tensor& query) {
  return query.size(0) == 0 || query.size(2) == 0;
}

// LibTorch's aligns a causal mask to the first key, ours to the last: equal only where the lengths
// are. One query alone sees all keys.
bool flash_can(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool causal,
               double dropout) {
  const bool aligned = !causal || query.size(2) == key.size(2) || query.size(2) == 1;
  return dropout == 0 && aligned && value.size(3) == query.size(3);
}

bool flash_causal(const at::Tensor& query, bool causal) {
  return causal && query.size(2) > 1;
}

std::tuple<at::Tensor, at::Tensor> forward_cpu(const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, bool causal, double scale,
                                               double dropout, int64_t random_key,
                                               at::IntArrayRef sample_ids, int64_t head_begin) {
  if (!is_empty(query) && flash_can(query, key, value, causal, dropout)) {
    return at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, flash_causal(query, causal), std::nullopt, scale);
  }
  const at::Tensor output = empty_heads(query, value.size(3));
  const at::Tensor logsumexp = empty_logsumexp(query);
  if (!is_empty(query)) {
    blocked_attention_forward(
        {query, key, value, causal, scale, dropout, unpack_key(random_key), sample_ids, head_begin},
        output, logsumexp);
  }
  return {output, logsumexp};
}

std::tuple<at::Tensor, at::Tensor> forward_meta(const at::Tensor& query, const at::Tensor&,
                                                const at::Tensor& value, bool, double, double,
                                                int64_t, at::IntArrayRef, int64_t) {
  return {empty_heads(query, value.size(3)), empty_logsumexp(query)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_meta(
    const at::Tensor&, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor&, const at::Tensor&, bool, double, double, int64_t, at::IntArrayRef, int64_t) {
  return {empty_heads(query, query.size(3)), empty_heads(key, key.size(3)),
          empty_heads(value, value.size(3))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool causal,
    double scale, double dropout, int64_t random_key, at::IntArrayRef sample_ids,
    int64_t head_begin) {
  const at::Tensor gradient =
      output_gradient.stride(3) == 1 ? output_gradient : output_gradient.contiguous();
  if (!is_empty(query) && flash_can(query, key, value, causal, dropout)) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, query, key, value, output, logsumexp, 0.0, flash_causal(query, causal),
        std::nullopt, scale);
  }
  const auto gradients = backward_meta(gradient, query, key, value, output, logsumexp, causal,
                                       scale, dropout, random_key, sample_ids, head_begin);
  const auto& [query_gradient, key_gradient, value_gradient] = gradients;
  if (is_empty(query)) {
    key_gradient.zero_();
    value_gradient.zero_();
  } else {
    blocked_attention_backward(
        {query, key, value, causal, scale, dropout, unpack_key(random_key), sample_ids, head_begin},
        output, logsumexp, gradient, query_gradient, key_gradient, value_gradient);
  }
  return gradients;
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, bool causal, float scale, float dropout, "
      "int random_key, int[] sample_ids, int head_begin) -> (Tensor output, Tensor logsumexp)");
  m.def(
      "attention_backward(Tensor output_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor output, Tensor logsumexp, bool causal, float scale, float dropout, int random_key, "
      "int[] sample_ids, int head_begin) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("attention", forward_cpu);
  m.impl("attention_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("attention", any_device::attention);
  m.impl("attention_backward", any_device::attention_backward);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("attention", forward_meta);
  m.impl("attention_backward", backward_meta);
}

struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value, const Rule& rule) {
    static const auto op = find_operator<decltype(forward_cpu)>("colossal::attention");
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [output, logsumexp] = op.call(query, key, value, rule.causal, rule.scale, rule.dropout,
                                       rule.random_key, rule.sample_ids, rule.head_begin);
    context->save_for_backward({query, key, value, output, logsumexp});
    context->saved_data["causal"] = rule.causal;
    context->saved_data["scale"] = rule.scale;
    context->saved_data["dropout"] = rule.dropout;
    context->saved_data["random_key"] = rule.random_key;
    context->saved_data["sample_ids"] = rule.sample_ids;
    context->saved_data["head_begin"] = rule.head_begin;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    static const auto op = find_operator<decltype(backward_cpu)>("colossal::attention_backward");
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [query, key, value] = op.call(
        gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], data["causal"].toBool(),
        data["scale"].toDouble(), data["dropout"].toDouble(), data["random_key"].toInt(),
        data["sample_ids"].toIntVector(), data["head_begin"].toInt());
    return {query, key, value, {}};
  }
};

void check(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
           const AttentionOptions& options) {
  COLOSSAL_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4, "dims {}, {}, {}",
                 query.dim(), key.dim(), value.dim());
  COLOSSAL_CHECK(query.size(0) == key.size(0) && query.size(3) == key.size(3) &&
                     key.sizes().slice(0, 3) == value.sizes().slice(0, 3),
                 "query {}, key {}, value {}", shape_text(query), shape_text(key),
                 shape_text(value));
  COLOSSAL_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
                 "{} query heads over {} key heads", query.size(1), key.size(1));
  COLOSSAL_CHECK(
      key.size(2) >= (options.causal ? query.size(2) : std::min<int64_t>(1, query.size(2))),
      "{} queries, {} keys", query.size(2), key.size(2));
  COLOSSAL_CHECK(
      options.dropout == 0 || query.size(0) == static_cast<int64_t>(options.sample_ids.size()),
      "batch {}, sample ids {}", query.size(0), options.sample_ids.size());
}

at::Tensor with_contiguous_rows(const at::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

}  // namespace

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options) {
  check(query, key, value, options);
  const double scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(query.size(3)));
  Rule rule{options.causal,    scale, options.dropout, pack_key(options.random_key), {},
            options.head_begin};
  if (options.dropout > 0) {
    rule.sample_ids.assign(options.sample_ids.begin(), options.sample_ids.end());
  }
  return Attention::apply(with_contiguous_rows(query), with_contiguous_rows(key),
                          with_contiguous_rows(value), rule);
}

}  // namespace colossal::ops
