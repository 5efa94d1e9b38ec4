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
#include "colossal/ops/dispatch.h"
#include "colossal/ops/flash_attention.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What all operators take beside queries, keys and values.
struct Rule {
  at::Tensor documents;  // undefined: none
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

at::Tensor with_contiguous_rows(const at::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

// Up to here LibTorch's blocks of fp32 take less time than ours.
constexpr int64_t kShortSequence = 64;

// Where LibTorch's flash attention is faster and can do it. It aligns a causal mask to the first
// key, ours to the last: equal only where the lengths are. One query alone sees all keys.
bool use_libtorch(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  bool causal, double dropout) {
  const bool one = query.size(2) == 1;
  const bool can = dropout == 0 && (!causal || one || query.size(2) == key.size(2)) &&
                   value.size(3) == query.size(3);
  const bool is_short = query.scalar_type() == at::kFloat && query.size(2) <= kShortSequence;
  return can && (one || is_short);
}

bool libtorch_causal(const at::Tensor& query, bool causal) {
  return causal && query.size(2) > 1;
}

std::tuple<at::Tensor, at::Tensor> forward_documents(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value,
                                                     const at::Tensor& documents, bool causal,
                                                     double scale, double dropout,
                                                     int64_t random_key, at::IntArrayRef sample_ids,
                                                     int64_t head_begin) {
  const at::Tensor output = empty_heads(query, value.size(3));
  const at::Tensor logsumexp = empty_logsumexp(query);
  if (!is_empty(query)) {
    flash_attention_forward({query, key, value, documents, causal, scale, dropout,
                             unpack_key(random_key), sample_ids, head_begin},
                            output, logsumexp);
  }
  return {output, logsumexp};
}

std::tuple<at::Tensor, at::Tensor> forward_cpu(const at::Tensor& query, const at::Tensor& key,
                                               const at::Tensor& value, bool causal, double scale,
                                               double dropout, int64_t random_key,
                                               at::IntArrayRef sample_ids, int64_t head_begin) {
  if (!is_empty(query) && use_libtorch(query, key, value, causal, dropout)) {
    return at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, libtorch_causal(query, causal), std::nullopt, scale);
  }
  return forward_documents(query, key, value, {}, causal, scale, dropout, random_key, sample_ids,
                           head_begin);
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

std::tuple<at::Tensor, at::Tensor> forward_documents_meta(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor&,
    bool causal, double scale, double dropout, int64_t random_key, at::IntArrayRef sample_ids,
    int64_t head_begin) {
  return forward_meta(query, key, value, causal, scale, dropout, random_key, sample_ids,
                      head_begin);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_documents_meta(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp,
    const at::Tensor&, bool causal, double scale, double dropout, int64_t random_key,
    at::IntArrayRef sample_ids, int64_t head_begin) {
  return backward_meta(output_gradient, query, key, value, output, logsumexp, causal, scale,
                       dropout, random_key, sample_ids, head_begin);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_documents(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp,
    const at::Tensor& documents, bool causal, double scale, double dropout, int64_t random_key,
    at::IntArrayRef sample_ids, int64_t head_begin) {
  const auto gradients = backward_meta(output_gradient, query, key, value, output, logsumexp,
                                       causal, scale, dropout, random_key, sample_ids, head_begin);
  const auto& [query_gradient, key_gradient, value_gradient] = gradients;
  if (is_empty(query)) {
    key_gradient.zero_();
    value_gradient.zero_();
  } else {
    flash_attention_backward({query, key, value, documents, causal, scale, dropout,
                              unpack_key(random_key), sample_ids, head_begin},
                             output, logsumexp, with_contiguous_rows(output_gradient),
                             query_gradient, key_gradient, value_gradient);
  }
  return gradients;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool causal,
    double scale, double dropout, int64_t random_key, at::IntArrayRef sample_ids,
    int64_t head_begin) {
  if (!is_empty(query) && use_libtorch(query, key, value, causal, dropout)) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        with_contiguous_rows(output_gradient), query, key, value, output, logsumexp, 0.0,
        libtorch_causal(query, causal), std::nullopt, scale);
  }
  return backward_documents(output_gradient, query, key, value, output, logsumexp, {}, causal,
                            scale, dropout, random_key, sample_ids, head_begin);
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, bool causal, float scale, float dropout, "
      "int random_key, int[] sample_ids, int head_begin) -> (Tensor output, Tensor logsumexp)");
  m.def(
      "attention_backward(Tensor output_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor output, Tensor logsumexp, bool causal, float scale, float dropout, int random_key, "
      "int[] sample_ids, int head_begin) -> (Tensor, Tensor, Tensor)");
  m.def(
      "attention.documents(Tensor query, Tensor key, Tensor value, Tensor documents, bool causal, "
      "float scale, float dropout, int random_key, int[] sample_ids, int head_begin) "
      "-> (Tensor output, Tensor logsumexp)");
  m.def(
      "attention_backward.documents(Tensor output_gradient, Tensor query, Tensor key, "
      "Tensor value, Tensor output, Tensor logsumexp, Tensor documents, bool causal, float scale, "
      "float dropout, int random_key, int[] sample_ids, int head_begin) "
      "-> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("attention", forward_cpu);
  m.impl("attention_backward", backward_cpu);
  m.impl("attention.documents", forward_documents);
  m.impl("attention_backward.documents", backward_documents);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("attention", any_device::attention);
  m.impl("attention_backward", any_device::attention_backward);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("attention", forward_meta);
  m.impl("attention_backward", backward_meta);
  m.impl("attention.documents", forward_documents_meta);
  m.impl("attention_backward.documents", backward_documents_meta);
}

template <typename Function>
c10::TypedOperatorHandle<Function> find_documents_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "documents").typed<Function>();
}

struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value, const Rule& rule) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [output, logsumexp] = call_forward(query, key, value, rule);
    context->save_for_backward({query, key, value, output, logsumexp, rule.documents});
    context->saved_data["causal"] = rule.causal;
    context->saved_data["scale"] = rule.scale;
    context->saved_data["dropout"] = rule.dropout;
    context->saved_data["random_key"] = rule.random_key;
    context->saved_data["sample_ids"] = rule.sample_ids;
    context->saved_data["head_begin"] = rule.head_begin;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    const variable_list saved = context->get_saved_variables();
    const Rule rule{saved[5],
                    data["causal"].toBool(),
                    data["scale"].toDouble(),
                    data["dropout"].toDouble(),
                    data["random_key"].toInt(),
                    data["sample_ids"].toIntVector(),
                    data["head_begin"].toInt()};
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [query, key, value] = call_backward(gradients[0], saved, rule);
    return {query, key, value, {}};
  }

 private:
  static std::tuple<at::Tensor, at::Tensor> call_forward(const at::Tensor& query,
                                                         const at::Tensor& key,
                                                         const at::Tensor& value,
                                                         const Rule& rule) {
    if (rule.documents.defined()) {
      static const auto op =
          find_documents_operator<decltype(forward_documents)>("colossal::attention");
      return op.call(query, key, value, rule.documents, rule.causal, rule.scale, rule.dropout,
                     rule.random_key, rule.sample_ids, rule.head_begin);
    }
    static const auto op = find_operator<decltype(forward_cpu)>("colossal::attention");
    return op.call(query, key, value, rule.causal, rule.scale, rule.dropout, rule.random_key,
                   rule.sample_ids, rule.head_begin);
  }

  static std::tuple<at::Tensor, at::Tensor, at::Tensor> call_backward(const at::Tensor& gradient,
                                                                      const variable_list& saved,
                                                                      const Rule& rule) {
    if (rule.documents.defined()) {
      static const auto op =
          find_documents_operator<decltype(backward_documents)>("colossal::attention_backward");
      return op.call(gradient, saved[0], saved[1], saved[2], saved[3], saved[4], rule.documents,
                     rule.causal, rule.scale, rule.dropout, rule.random_key, rule.sample_ids,
                     rule.head_begin);
    }
    static const auto op = find_operator<decltype(backward_cpu)>("colossal::attention_backward");
    return op.call(gradient, saved[0], saved[1], saved[2], saved[3], saved[4], rule.causal,
                   rule.scale, rule.dropout, rule.random_key, rule.sample_ids, rule.head_begin);
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
  const bool aligned = options.causal || options.documents.defined();
  COLOSSAL_CHECK(key.size(2) >= (aligned ? query.size(2) : std::min<int64_t>(1, query.size(2))),
                 "{} queries, {} keys", query.size(2), key.size(2));
  if (options.documents.defined()) {
    COLOSSAL_CHECK(options.documents.dim() == 2 && options.documents.size(0) == key.size(0) &&
                       options.documents.size(1) == key.size(2) &&
                       options.documents.scalar_type() == at::kLong,
                   "documents {} of type {} for keys {}", shape_text(options.documents),
                   c10::toString(options.documents.scalar_type()), shape_text(key));
    COLOSSAL_CHECK(query.is_cpu() || query.is_meta(), "attention over documents on {}",
                   query.device().str());
  }
  COLOSSAL_CHECK(
      options.dropout == 0 || query.size(0) == static_cast<int64_t>(options.sample_ids.size()),
      "batch {}, sample ids {}", query.size(0), options.sample_ids.size());
}

}  // namespace

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options) {
  check(query, key, value, options);
  const double scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(query.size(3)));
  Rule rule{
      options.documents, options.causal, scale, options.dropout, pack_key(options.random_key), {},
      options.head_begin};
  if (options.dropout > 0) {
    rule.sample_ids.assign(options.sample_ids.begin(), options.sample_ids.end());
  }
  return Attention::apply(with_contiguous_rows(query), with_contiguous_rows(key),
                          with_contiguous_rows(value), rule);
}

}  // namespace colossal::ops
