#include "colossal/ops/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
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

// [batch, heads, sequence, columns] whose memory is [batch, sequence, heads, columns]: the heads of
// a token lie side by side for the projection that follows.
at::Tensor empty_heads(const at::Tensor& like, int64_t columns, at::ScalarType type) {
  return at::empty({like.size(0), like.size(2), like.size(1), columns}, like.options().dtype(type))
      .transpose(1, 2);
}
at::Tensor empty_heads(const at::Tensor& like, int64_t columns) {
  return empty_heads(like, columns, like.scalar_type());
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

AttentionRule make_rule(bool causal, double scale, double dropout, int64_t random_key,
                        at::IntArrayRef sample_ids, int64_t head_begin) {
  AttentionRule rule;
  rule.causal = causal;
  rule.scale = scale;
  rule.dropout = dropout;
  rule.random_key = unpack_key(random_key);
  rule.sample_ids = sample_ids.vec();
  rule.head_begin = head_begin;
  return rule;
}

// All of a sequence's keys and its last queries. documents: of the keys, or undefined.
AttentionPart whole_sequence(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const at::Tensor& documents) {
  const int64_t queries = query.size(2), keys = key.size(2);
  AttentionPart part{query, key, value, {{keys - queries, keys}}, {{0, keys}}};
  if (documents.defined()) {
    part.query_documents = documents.narrow(1, keys - queries, queries);
    part.key_documents = documents;
  }
  return part;
}

AttentionGradients empty_gradients(const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value) {
  return {empty_heads(query, query.size(3)), empty_heads(key, key.size(3)),
          empty_heads(value, value.size(3))};
}

std::tuple<at::Tensor, at::Tensor> attention_cpu(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, bool causal, double scale,
                                                 double dropout, int64_t random_key,
                                                 at::IntArrayRef sample_ids, int64_t head_begin) {
  if (!is_empty(query) && use_libtorch(query, key, value, causal, dropout)) {
    return at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, libtorch_causal(query, causal), std::nullopt, scale);
  }
  const AttentionResult result{empty_heads(query, value.size(3)), empty_logsumexp(query)};
  flash_attention_forward({whole_sequence(query, key, value, {}),
                           make_rule(causal, scale, dropout, random_key, sample_ids, head_begin)},
                          result);
  return {result.output, result.logsumexp};
}

std::tuple<at::Tensor, at::Tensor> attention_meta(const at::Tensor& query, const at::Tensor& key,
                                                  const at::Tensor& value, bool causal,
                                                  double scale, double dropout, int64_t random_key,
                                                  at::IntArrayRef sample_ids, int64_t head_begin) {
  const AttentionResult result{empty_heads(query, value.size(3)), empty_logsumexp(query)};
  if (!use_libtorch(query, key, value, causal, dropout)) {
    allocate_flash_scratch({whole_sequence(query, key, value, {}),
                            make_rule(causal, scale, dropout, random_key, sample_ids, head_begin)},
                           /*backward=*/false);
  }
  return {result.output, result.logsumexp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool causal,
    double scale, double dropout, int64_t random_key, at::IntArrayRef sample_ids,
    int64_t head_begin) {
  if (!is_empty(query) && use_libtorch(query, key, value, causal, dropout)) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        with_contiguous_rows(output_gradient), query, key, value, output, logsumexp, 0.0,
        libtorch_causal(query, causal), std::nullopt, scale);
  }
  const AttentionGradients gradients = empty_gradients(query, key, value);
  flash_attention_backward({whole_sequence(query, key, value, {}),
                            make_rule(causal, scale, dropout, random_key, sample_ids, head_begin)},
                           {output, logsumexp}, with_contiguous_rows(output_gradient), gradients);
  return {gradients.query, gradients.key, gradients.value};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_meta(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor&, const at::Tensor&, bool causal, double scale,
    double dropout, int64_t random_key, at::IntArrayRef sample_ids, int64_t head_begin) {
  const AttentionGradients gradients = empty_gradients(query, key, value);
  const at::Tensor rows = with_contiguous_rows(output_gradient);
  if (!use_libtorch(query, key, value, causal, dropout)) {
    allocate_flash_scratch({whole_sequence(query, key, value, {}),
                            make_rule(causal, scale, dropout, random_key, sample_ids, head_begin)},
                           /*backward=*/true);
  }
  return {gradients.query, gradients.key, gradients.value};
}

AttentionPart make_part(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const std::optional<at::Tensor>& query_documents,
                        const std::optional<at::Tensor>& key_documents,
                        at::IntArrayRef query_positions, at::IntArrayRef key_positions) {
  return {query,
          key,
          value,
          unpack_runs(query_positions),
          unpack_runs(key_positions),
          query_documents.value_or(at::Tensor()),
          key_documents.value_or(at::Tensor())};
}

void part_cpu(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              const std::optional<at::Tensor>& query_documents,
              const std::optional<at::Tensor>& key_documents, at::IntArrayRef query_positions,
              at::IntArrayRef key_positions, bool causal, double scale, double dropout,
              int64_t random_key, at::IntArrayRef sample_ids, int64_t head_begin, bool accumulate,
              const at::Tensor& output, const at::Tensor& logsumexp) {
  flash_attention_forward(
      {make_part(query, key, value, query_documents, key_documents, query_positions, key_positions),
       make_rule(causal, scale, dropout, random_key, sample_ids, head_begin), accumulate},
      {output, logsumexp});
}

void part_backward_cpu(const at::Tensor& output_gradient, const at::Tensor& query,
                       const at::Tensor& key, const at::Tensor& value, const at::Tensor& output,
                       const at::Tensor& logsumexp,
                       const std::optional<at::Tensor>& query_documents,
                       const std::optional<at::Tensor>& key_documents,
                       at::IntArrayRef query_positions, at::IntArrayRef key_positions, bool causal,
                       double scale, double dropout, int64_t random_key, at::IntArrayRef sample_ids,
                       int64_t head_begin, bool accumulate, const at::Tensor& query_gradient,
                       const at::Tensor& key_gradient, const at::Tensor& value_gradient) {
  flash_attention_backward(
      {make_part(query, key, value, query_documents, key_documents, query_positions, key_positions),
       make_rule(causal, scale, dropout, random_key, sample_ids, head_begin), accumulate},
      {output, logsumexp}, output_gradient, {query_gradient, key_gradient, value_gradient});
}

void part_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& query_documents,
               const std::optional<at::Tensor>& key_documents, at::IntArrayRef query_positions,
               at::IntArrayRef key_positions, bool causal, double scale, double dropout,
               int64_t random_key, at::IntArrayRef sample_ids, int64_t head_begin, bool accumulate,
               const at::Tensor&, const at::Tensor&) {
  allocate_flash_scratch(
      {make_part(query, key, value, query_documents, key_documents, query_positions, key_positions),
       make_rule(causal, scale, dropout, random_key, sample_ids, head_begin), accumulate},
      /*backward=*/false);
}

void part_backward_meta(const at::Tensor&, const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value, const at::Tensor&, const at::Tensor&,
                        const std::optional<at::Tensor>& query_documents,
                        const std::optional<at::Tensor>& key_documents,
                        at::IntArrayRef query_positions, at::IntArrayRef key_positions, bool causal,
                        double scale, double dropout, int64_t random_key,
                        at::IntArrayRef sample_ids, int64_t head_begin, bool accumulate,
                        const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  allocate_flash_scratch(
      {make_part(query, key, value, query_documents, key_documents, query_positions, key_positions),
       make_rule(causal, scale, dropout, random_key, sample_ids, head_begin), accumulate},
      /*backward=*/true);
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, bool causal, float scale, float dropout, "
      "int random_key, int[] sample_ids, int head_begin) -> (Tensor output, Tensor logsumexp)");
  m.def(
      "attention_backward(Tensor output_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor output, Tensor logsumexp, bool causal, float scale, float dropout, int random_key, "
      "int[] sample_ids, int head_begin) -> (Tensor, Tensor, Tensor)");
  // positions: the begin and the end of each run
  m.def(
      "attention_part(Tensor query, Tensor key, Tensor value, Tensor? query_documents, "
      "Tensor? key_documents, int[] query_positions, int[] key_positions, bool causal, "
      "float scale, float dropout, int random_key, int[] sample_ids, int head_begin, "
      "bool accumulate, Tensor(a!) output, Tensor(b!) logsumexp) -> ()");
  m.def(
      "attention_part_backward(Tensor output_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor output, Tensor logsumexp, Tensor? query_documents, Tensor? key_documents, "
      "int[] query_positions, int[] key_positions, bool causal, float scale, float dropout, "
      "int random_key, int[] sample_ids, int head_begin, bool accumulate, "
      "Tensor(a!) query_gradient, Tensor(b!) key_gradient, Tensor(c!) value_gradient) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("attention", attention_cpu);
  m.impl("attention_backward", attention_backward_cpu);
  m.impl("attention_part", part_cpu);
  m.impl("attention_part_backward", part_backward_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("attention", any_device::attention);
  m.impl("attention_backward", any_device::attention_backward);
  m.impl("attention_part", any_device::attention_part);
  m.impl("attention_part_backward", any_device::attention_part_backward);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("attention", attention_meta);
  m.impl("attention_backward", attention_backward_meta);
  m.impl("attention_part", part_meta);
  m.impl("attention_part_backward", part_backward_meta);
}

struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const AttentionOptions& options) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const AttentionRule rule(options, query.size(3));
    const AttentionResult result = call_forward(query, key, value, options.documents, rule);
    context->save_for_backward(
        {query, key, value, result.output, result.logsumexp, options.documents});
    rule.save(context);
    return result.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const AttentionGradients results =
        call_backward(gradients[0], saved, AttentionRule::saved(context));
    return {results.query, results.key, results.value, {}};
  }

 private:
  static AttentionResult call_forward(const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const at::Tensor& documents,
                                      const AttentionRule& rule) {
    if (documents.defined()) {
      const AttentionResult result{empty_heads(query, value.size(3)), empty_logsumexp(query)};
      attend(whole_sequence(query, key, value, documents), rule, false, result);
      return result;
    }
    static const auto op = find_operator<decltype(attention_cpu)>("colossal::attention");
    auto [output, logsumexp] = op.call(query, key, value, rule.causal, rule.scale, rule.dropout,
                                       pack_key(rule.random_key), rule.sample_ids, rule.head_begin);
    return {output, logsumexp};
  }

  static AttentionGradients call_backward(const at::Tensor& gradient, const variable_list& saved,
                                          const AttentionRule& rule) {
    const at::Tensor &query = saved[0], &key = saved[1], &value = saved[2], &documents = saved[5];
    if (documents.defined()) {
      const AttentionGradients gradients = empty_gradients(query, key, value);
      attend_backward(whole_sequence(query, key, value, documents), rule, false,
                      {saved[3], saved[4]}, gradient, gradients);
      return gradients;
    }
    static const auto op =
        find_operator<decltype(attention_backward_cpu)>("colossal::attention_backward");
    auto [of_query, of_key, of_value] =
        op.call(gradient, query, key, value, saved[3], saved[4], rule.causal, rule.scale,
                rule.dropout, pack_key(rule.random_key), rule.sample_ids, rule.head_begin);
    return {of_query, of_key, of_value};
  }
};

void check_shapes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  COLOSSAL_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4, "dims {}, {}, {}",
                 query.dim(), key.dim(), value.dim());
  COLOSSAL_CHECK(query.size(0) == key.size(0) && query.size(3) == key.size(3) &&
                     key.sizes().slice(0, 3) == value.sizes().slice(0, 3),
                 "query {}, key {}, value {}", shape_text(query), shape_text(key),
                 shape_text(value));
  COLOSSAL_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
                 "{} query heads over {} key heads", query.size(1), key.size(1));
}

// documents [batch, positions] of the rows of x.
void check_documents(const at::Tensor& documents, const at::Tensor& x) {
  COLOSSAL_CHECK(documents.dim() == 2 && documents.size(0) == x.size(0) &&
                     documents.size(1) == x.size(2) && documents.scalar_type() == at::kLong,
                 "documents {} of type {} for {}", shape_text(documents),
                 c10::toString(documents.scalar_type()), shape_text(x));
}

void check_samples(double dropout, size_t sample_ids, const at::Tensor& query) {
  COLOSSAL_CHECK(dropout == 0 || query.size(0) == static_cast<int64_t>(sample_ids),
                 "batch {}, sample ids {}", query.size(0), sample_ids);
}

void check(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
           const AttentionOptions& options) {
  check_shapes(query, key, value);
  const bool aligned = options.causal || options.documents.defined();
  COLOSSAL_CHECK(key.size(2) >= (aligned ? query.size(2) : std::min<int64_t>(1, query.size(2))),
                 "{} queries, {} keys", query.size(2), key.size(2));
  if (options.documents.defined()) check_documents(options.documents, key);
  check_samples(options.dropout, options.sample_ids.size(), query);
}

int64_t total_size(const std::vector<Range>& runs) {
  int64_t size = 0;
  for (const Range& run : runs) size += run.size();
  return size;
}

void check(const AttentionPart& part, const AttentionRule& rule) {
  check_shapes(part.query, part.key, part.value);
  COLOSSAL_CHECK(total_size(part.query_positions) == part.query.size(2) &&
                     total_size(part.key_positions) == part.key.size(2),
                 "{} positions for query {}, {} for key {}", total_size(part.query_positions),
                 shape_text(part.query), total_size(part.key_positions), shape_text(part.key));
  COLOSSAL_CHECK(part.query_documents.defined() == part.key_documents.defined(),
                 "documents of queries {}, of keys {}", part.query_documents.defined(),
                 part.key_documents.defined());
  if (part.key_documents.defined()) {
    check_documents(part.query_documents, part.query);
    check_documents(part.key_documents, part.key);
  }
  check_samples(rule.dropout, rule.sample_ids.size(), part.query);
}

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

AttentionRule::AttentionRule(const AttentionOptions& options, int64_t head_size)
    : causal(options.causal),
      scale(options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(head_size))),
      dropout(options.dropout),
      random_key(options.random_key),
      head_begin(options.head_begin) {
  if (dropout > 0) sample_ids.assign(options.sample_ids.begin(), options.sample_ids.end());
}

void AttentionRule::save(AutogradContext* context) const {
  auto& data = context->saved_data;
  data["causal"] = causal;
  data["scale"] = scale;
  data["dropout"] = dropout;
  data["random_key"] = pack_key(random_key);
  data["sample_ids"] = sample_ids;
  data["head_begin"] = head_begin;
}

AttentionRule AttentionRule::saved(AutogradContext* context) {
  auto& data = context->saved_data;
  return make_rule(data["causal"].toBool(), data["scale"].toDouble(), data["dropout"].toDouble(),
                   data["random_key"].toInt(), data["sample_ids"].toIntVector(),
                   data["head_begin"].toInt());
}

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options) {
  check(query, key, value, options);
  return Attention::apply(with_contiguous_rows(query), with_contiguous_rows(key),
                          with_contiguous_rows(value), options);
}

AttentionResult empty_attention_result(const at::Tensor& query, int64_t value_size) {
  return {empty_heads(query, value_size, compute_type(query.scalar_type())),
          empty_logsumexp(query)};
}

void attend(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
            const AttentionResult& result) {
  check(part, rule);
  static const auto op = find_operator<decltype(part_cpu)>("colossal::attention_part");
  op.call(with_contiguous_rows(part.query), with_contiguous_rows(part.key),
          with_contiguous_rows(part.value), if_defined(part.query_documents),
          if_defined(part.key_documents), pack_runs(part.query_positions),
          pack_runs(part.key_positions), rule.causal, rule.scale, rule.dropout,
          pack_key(rule.random_key), rule.sample_ids, rule.head_begin, accumulate, result.output,
          result.logsumexp);
}

void attend_backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                     const AttentionResult& result, const at::Tensor& output_gradient,
                     const AttentionGradients& gradients) {
  check(part, rule);
  static const auto op =
      find_operator<decltype(part_backward_cpu)>("colossal::attention_part_backward");
  op.call(with_contiguous_rows(output_gradient), with_contiguous_rows(part.query),
          with_contiguous_rows(part.key), with_contiguous_rows(part.value), result.output,
          result.logsumexp, if_defined(part.query_documents), if_defined(part.key_documents),
          pack_runs(part.query_positions), pack_runs(part.key_positions), rule.causal, rule.scale,
          rule.dropout, pack_key(rule.random_key), rule.sample_ids, rule.head_begin, accumulate,
          gradients.query, gradients.key, gradients.value);
}

}  // namespace colossal::ops
