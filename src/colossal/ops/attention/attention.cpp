#include "colossal/ops/attention/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/ops/attention/flash_attention.h"
#include "colossal/ops/attention/virtual_tokens.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm/sum_rows.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Allocates [batch, heads, sequence, columns], stored as [batch, sequence, heads, columns]: the
// projection that follows reads the heads of a token side by side.
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

// Up to this number of queries in fp32, LibTorch's flash attention takes less time than ours.
constexpr int64_t kShortSequence = 64;

// Returns whether LibTorch's flash attention is faster than ours and computes the same. LibTorch
// aligns a causal mask to the first key, we align it to the last key. The two agree if there are as
// many queries as keys. A single query sees all keys, so it needs no causal mask.
bool use_libtorch(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionRule& rule, bool sinks) {
  const bool plain = !sinks && rule.dropout == 0 && rule.window == 0 && rule.soft_cap == 0 &&
                     rule.prefix_lengths.empty() && rule.alibi_slopes.empty();
  const bool one = query.size(2) == 1;
  const bool aligned = !rule.causal || one || query.size(2) == key.size(2);
  const bool is_short = query.scalar_type() == at::kFloat && query.size(2) <= kShortSequence;
  const bool faster = is_short || (one && query.scalar_type() != at::kBFloat16);
  return plain && aligned && value.size(3) == query.size(3) && faster;
}

bool libtorch_causal(const at::Tensor& query, const AttentionRule& rule) {
  return rule.causal && query.size(2) > 1;
}

// Returns the part with all keys of a sequence and its last queries. The queries of cross-attention
// get positions, too, but their attention does not depend on positions.
AttentionPart whole_sequence(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value) {
  const int64_t queries = query.size(2), keys = key.size(2);
  const int64_t first = std::max<int64_t>(0, keys - queries);
  return {query, key, value, {{first, first + queries}}, {{0, keys}}};
}

AttentionGradients empty_gradients(const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value) {
  return {empty_heads(query, query.size(3)), empty_heads(key, key.size(3)),
          empty_heads(value, value.size(3))};
}

using RuleIntegers = at::IntArrayRef;
using RuleNumbers = at::ArrayRef<double>;
using OptionalTensor = std::optional<at::Tensor>;

FlashAttention whole_problem(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const OptionalTensor& sinks,
                             const AttentionRule& rule) {
  FlashAttention problem{whole_sequence(query, key, value), rule};
  problem.part.sinks = sinks.value_or(at::Tensor());
  return problem;
}

std::tuple<at::Tensor, at::Tensor> attention_cpu(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value,
                                                 const OptionalTensor& sinks, RuleIntegers integers,
                                                 RuleNumbers numbers) {
  const AttentionRule rule = AttentionRule::unpacked(integers, numbers);
  if (!is_empty(query) && use_libtorch(query, key, value, rule, sinks.has_value())) {
    return at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, libtorch_causal(query, rule), std::nullopt, rule.scale);
  }
  const AttentionResult result{empty_heads(query, value.size(3)), empty_logsumexp(query)};
  flash_attention_forward(whole_problem(query, key, value, sinks, rule), result);
  return {result.output, result.logsumexp};
}

std::tuple<at::Tensor, at::Tensor> attention_meta(const at::Tensor& query, const at::Tensor& key,
                                                  const at::Tensor& value,
                                                  const OptionalTensor& sinks,
                                                  RuleIntegers integers, RuleNumbers numbers) {
  const AttentionRule rule = AttentionRule::unpacked(integers, numbers);
  const AttentionResult result{empty_heads(query, value.size(3)), empty_logsumexp(query)};
  if (!use_libtorch(query, key, value, rule, sinks.has_value())) {
    allocate_flash_scratch(whole_problem(query, key, value, sinks, rule), /*backward=*/false);
  }
  return {result.output, result.logsumexp};
}

// sinks: whether the forward pass had sinks, so that both passes choose the same implementation.
// The values of the sinks are not needed, since logsumexp includes them.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool sinks,
    RuleIntegers integers, RuleNumbers numbers) {
  const AttentionRule rule = AttentionRule::unpacked(integers, numbers);
  if (!is_empty(query) && use_libtorch(query, key, value, rule, sinks)) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        with_contiguous_rows(output_gradient), query, key, value, output, logsumexp, 0.0,
        libtorch_causal(query, rule), std::nullopt, rule.scale);
  }
  const AttentionGradients gradients = empty_gradients(query, key, value);
  flash_attention_backward(whole_problem(query, key, value, {}, rule), {output, logsumexp},
                           with_contiguous_rows(output_gradient), gradients);
  return {gradients.query, gradients.key, gradients.value};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_meta(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor&, const at::Tensor&, bool sinks,
    RuleIntegers integers, RuleNumbers numbers) {
  const AttentionRule rule = AttentionRule::unpacked(integers, numbers);
  const AttentionGradients gradients = empty_gradients(query, key, value);
  const at::Tensor rows = with_contiguous_rows(output_gradient);
  if (!use_libtorch(query, key, value, rule, sinks)) {
    allocate_flash_scratch(whole_problem(query, key, value, {}, rule), /*backward=*/true);
  }
  return {gradients.query, gradients.key, gradients.value};
}

FlashAttention part_problem(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const OptionalTensor& query_documents,
                            const OptionalTensor& key_documents, const OptionalTensor& sinks,
                            at::IntArrayRef query_positions, at::IntArrayRef key_positions,
                            RuleIntegers integers, RuleNumbers numbers, bool accumulate,
                            const OptionalTensor& relative_bias) {
  return {{query, key, value, unpack_runs(query_positions), unpack_runs(key_positions),
           query_documents.value_or(at::Tensor()), key_documents.value_or(at::Tensor()),
           sinks.value_or(at::Tensor()), relative_bias.value_or(at::Tensor())},
          AttentionRule::unpacked(integers, numbers),
          accumulate};
}

void part_cpu(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              const OptionalTensor& query_documents, const OptionalTensor& key_documents,
              const OptionalTensor& sinks, at::IntArrayRef query_positions,
              at::IntArrayRef key_positions, RuleIntegers integers, RuleNumbers numbers,
              bool accumulate, const at::Tensor& output, const at::Tensor& logsumexp,
              const OptionalTensor& relative_bias) {
  flash_attention_forward(
      part_problem(query, key, value, query_documents, key_documents, sinks, query_positions,
                   key_positions, integers, numbers, accumulate, relative_bias),
      {output, logsumexp});
}

void part_backward_cpu(const at::Tensor& output_gradient, const at::Tensor& query,
                       const at::Tensor& key, const at::Tensor& value, const at::Tensor& output,
                       const at::Tensor& logsumexp, const OptionalTensor& query_documents,
                       const OptionalTensor& key_documents, at::IntArrayRef query_positions,
                       at::IntArrayRef key_positions, RuleIntegers integers, RuleNumbers numbers,
                       bool accumulate, const at::Tensor& query_gradient,
                       const at::Tensor& key_gradient, const at::Tensor& value_gradient,
                       const OptionalTensor& relative_bias,
                       const OptionalTensor& relative_bias_gradient) {
  flash_attention_backward(
      part_problem(query, key, value, query_documents, key_documents, {}, query_positions,
                   key_positions, integers, numbers, accumulate, relative_bias),
      {output, logsumexp}, output_gradient,
      {query_gradient, key_gradient, value_gradient,
       relative_bias_gradient.value_or(at::Tensor())});
}

void part_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const OptionalTensor& query_documents, const OptionalTensor& key_documents,
               const OptionalTensor& sinks, at::IntArrayRef query_positions,
               at::IntArrayRef key_positions, RuleIntegers integers, RuleNumbers numbers,
               bool accumulate, const at::Tensor&, const at::Tensor&,
               const OptionalTensor& relative_bias) {
  allocate_flash_scratch(
      part_problem(query, key, value, query_documents, key_documents, sinks, query_positions,
                   key_positions, integers, numbers, accumulate, relative_bias),
      /*backward=*/false);
}

void part_backward_meta(const at::Tensor&, const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value, const at::Tensor&, const at::Tensor&,
                        const OptionalTensor& query_documents, const OptionalTensor& key_documents,
                        at::IntArrayRef query_positions, at::IntArrayRef key_positions,
                        RuleIntegers integers, RuleNumbers numbers, bool accumulate,
                        const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        const OptionalTensor& relative_bias, const OptionalTensor&) {
  allocate_flash_scratch(
      part_problem(query, key, value, query_documents, key_documents, {}, query_positions,
                   key_positions, integers, numbers, accumulate, relative_bias),
      /*backward=*/true);
}

// rule_integers, rule_numbers: from AttentionRule::packed(). query_positions, key_positions: from
// pack_runs().
TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? sinks, int[] rule_integers, "
      "float[] rule_numbers) -> (Tensor output, Tensor logsumexp)");
  m.def(
      "attention_backward(Tensor output_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor output, Tensor logsumexp, bool sinks, int[] rule_integers, float[] rule_numbers) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "attention_part(Tensor query, Tensor key, Tensor value, Tensor? query_documents, "
      "Tensor? key_documents, Tensor? sinks, int[] query_positions, int[] key_positions, "
      "int[] rule_integers, float[] rule_numbers, bool accumulate, Tensor(a!) output, "
      "Tensor(b!) logsumexp, Tensor? relative_bias) -> ()");
  m.def(
      "attention_part_backward(Tensor output_gradient, Tensor query, Tensor key, Tensor value, "
      "Tensor output, Tensor logsumexp, Tensor? query_documents, Tensor? key_documents, "
      "int[] query_positions, int[] key_positions, int[] rule_integers, float[] rule_numbers, "
      "bool accumulate, Tensor(a!) query_gradient, Tensor(b!) key_gradient, "
      "Tensor(c!) value_gradient, Tensor? relative_bias, Tensor(d!)? relative_bias_gradient) -> "
      "()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("attention", attention_cpu);
  m.impl("attention_backward", attention_backward_cpu);
  m.impl("attention_part", part_cpu);
  m.impl("attention_part_backward", part_backward_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("attention", aten_fallback::attention);
  m.impl("attention_backward", aten_fallback::attention_backward);
  m.impl("attention_part", aten_fallback::attention_part);
  m.impl("attention_part_backward", aten_fallback::attention_part_backward);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("attention", attention_meta);
  m.impl("attention_backward", attention_backward_meta);
  m.impl("attention_part", part_meta);
  m.impl("attention_part_backward", part_backward_meta);
}

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// sinks: an optional, because autograd functions accept undefined tensors only in optionals.
struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const OptionalTensor& sinks, const OptionalTensor& relative_bias,
                            const AttentionOptions& options) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const AttentionRule rule(options, query.size(3));
    const Saved saved{query,
                      key,
                      value,
                      sinks.value_or(at::Tensor()),
                      options.documents,
                      documents_of_queries(query, options),
                      relative_bias.value_or(at::Tensor())};
    const AttentionResult result = call_forward(saved, rule);
    context->save_for_backward({query, key, value, saved.sinks, saved.key_documents,
                                saved.query_documents, saved.relative_bias, result.output,
                                result.logsumexp});
    rule.save(context);
    return result.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list all = context->get_saved_variables();
    const Saved saved{all[0], all[1], all[2], all[3], all[4], all[5], all[6]};
    const AttentionResult result{all[7], all[8]};
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const AttentionGradients results =
        call_backward(gradients[0], saved, result, AttentionRule::saved(context));
    at::Tensor of_sinks;
    if (saved.sinks.defined()) of_sinks = sink_gradient(saved.sinks, result, gradients[0]);
    const at::Tensor of_bias = results.relative_bias.defined()
                                   ? results.relative_bias.to(saved.relative_bias.scalar_type())
                                   : at::Tensor();
    return {results.query, results.key, results.value, of_sinks, of_bias, {}};
  }

 private:
  struct Saved {
    at::Tensor query, key, value, sinks, key_documents, query_documents, relative_bias;

    AttentionPart part(const AttentionRule& rule) const {
      AttentionPart part = whole_sequence(query, key, value);
      if (!rule.query_positions.empty()) part.query_positions = rule.query_positions;
      part.query_documents = query_documents;
      part.key_documents = key_documents;
      part.sinks = sinks;
      part.relative_bias = relative_bias;
      return part;
    }
    // Returns whether the attention is computed by attend().
    bool is_part(const AttentionRule& rule) const {
      return key_documents.defined() || relative_bias.defined() || !rule.query_positions.empty();
    }
  };

  static at::Tensor documents_of_queries(const at::Tensor& query, const AttentionOptions& options) {
    if (options.query_documents.defined() || !options.documents.defined()) {
      return options.query_documents;
    }
    const int64_t queries = query.size(2);
    return options.documents.narrow(1, options.documents.size(1) - queries, queries);
  }

  static AttentionResult call_forward(const Saved& saved, const AttentionRule& rule) {
    const auto& [query, key, value, sinks, key_documents, query_documents, relative_bias] = saved;
    if (saved.is_part(rule)) {
      const AttentionResult result{empty_heads(query, value.size(3)), empty_logsumexp(query)};
      attend(saved.part(rule), rule, false, result);
      return result;
    }
    static const auto op = find_operator<decltype(attention_cpu)>("colossal::attention");
    const auto [integers, numbers] = rule.packed();
    auto [output, logsumexp] = op.call(query, key, value, if_defined(sinks), integers, numbers);
    return {output, logsumexp};
  }

  static AttentionGradients call_backward(const at::Tensor& gradient, const Saved& saved,
                                          const AttentionResult& result,
                                          const AttentionRule& rule) {
    const auto& [query, key, value, sinks, key_documents, query_documents, relative_bias] = saved;
    if (saved.is_part(rule)) {
      AttentionGradients gradients = empty_gradients(query, key, value);
      if (relative_bias.defined()) {
        gradients.relative_bias =
            at::zeros(relative_bias.sizes(),
                      relative_bias.options().dtype(compute_type(query.scalar_type())));
      }
      attend_backward(saved.part(rule), rule, false, result, gradient, gradients);
      return gradients;
    }
    static const auto op =
        find_operator<decltype(attention_backward_cpu)>("colossal::attention_backward");
    const auto [integers, numbers] = rule.packed();
    auto [of_query, of_key, of_value] =
        op.call(gradient, query, key, value, result.output, result.logsumexp, sinks.defined(),
                integers, numbers);
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

// Checks document numbers [batch, positions] of x [batch, heads, positions, size].
void check_documents(const at::Tensor& documents, const at::Tensor& x) {
  COLOSSAL_CHECK(documents.dim() == 2 && documents.size(0) == x.size(0) &&
                     documents.size(1) == x.size(2) && documents.scalar_type() == at::kLong,
                 "documents {} of type {} for {}", shape_text(documents),
                 c10::toString(documents.scalar_type()), shape_text(x));
}

void check_rule(const AttentionRule& rule, const at::Tensor& query, const at::Tensor& sinks) {
  const auto batch = static_cast<size_t>(query.size(0)), heads = static_cast<size_t>(query.size(1));
  COLOSSAL_CHECK(rule.dropout == 0 || rule.sample_ids.size() == batch, "batch {}, sample ids {}",
                 batch, rule.sample_ids.size());
  COLOSSAL_CHECK(rule.window >= 0 && rule.soft_cap >= 0, "window {}, soft cap {}", rule.window,
                 rule.soft_cap);
  COLOSSAL_CHECK(rule.prefix_lengths.empty() || rule.prefix_lengths.size() == batch,
                 "batch {}, prefix lengths {}", batch, rule.prefix_lengths.size());
  COLOSSAL_CHECK(rule.alibi_slopes.empty() || rule.alibi_slopes.size() == heads,
                 "{} heads, {} slopes", heads, rule.alibi_slopes.size());
  COLOSSAL_CHECK(!sinks.defined() || sinks.sizes() == at::IntArrayRef({query.size(1)}),
                 "{} heads, sinks {}", heads, shape_text(sinks));
}

void check_relative_bias(const at::Tensor& bias, const at::Tensor& query, double soft_cap) {
  if (!bias.defined()) return;
  COLOSSAL_CHECK(
      bias.dim() == 2 && bias.size(0) == query.size(1) && bias.size(1) % 2 == 1 && soft_cap == 0,
      "a relative bias {} for {} heads, soft cap {}", shape_text(bias), query.size(1), soft_cap);
}

void check(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
           const AttentionOptions& options) {
  check_shapes(query, key, value);
  const bool own_documents = options.query_documents.defined();
  const bool aligned = options.causal || options.window > 0 || !options.alibi_slopes.empty() ||
                       options.relative_bias.defined() ||
                       (options.documents.defined() && !own_documents);
  COLOSSAL_CHECK(key.size(2) >= (aligned ? query.size(2) : std::min<int64_t>(1, query.size(2))),
                 "{} queries, {} keys", query.size(2), key.size(2));
  COLOSSAL_CHECK(!own_documents || (options.documents.defined() && !options.causal),
                 "documents of queries alone, or of causal ones");
  if (options.documents.defined()) check_documents(options.documents, key);
  if (own_documents) check_documents(options.query_documents, query);
  COLOSSAL_CHECK(options.query_positions.empty() || !aligned,
                 "positions of queries whose attention depends on positions");
  COLOSSAL_CHECK(options.dropout == 0 || aligned || query.size(2) == key.size(2) ||
                     !options.query_positions.empty(),
                 "dropout of {} queries and {} keys without positions of the queries",
                 query.size(2), key.size(2));
  check_rule(AttentionRule(options, query.size(3)), query, options.sinks);
  check_relative_bias(options.relative_bias, query, options.soft_cap);
  COLOSSAL_CHECK(!options.relative_bias.defined() || options.virtual_tokens.count() == 0,
                 "virtual tokens with a relative bias");
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
  check_rule(rule, part.query, part.sinks);
  check_relative_bias(part.relative_bias, part.query, rule.soft_cap);
}

// The keys and values that at least one query can see, and the options that make a difference.
struct Seen {
  at::Tensor key, value;
  AttentionOptions options;
};

// Drops the keys that the window hides from all queries. Positions then count from the first key
// that is kept. Dropout and prefixes depend on positions, so with them all keys are kept.
Seen seen_by(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
             const AttentionOptions& options) {
  Seen seen{key, value, options};
  const int64_t queries = query.size(2), keys = key.size(2), wanted = options.window + queries - 1;
  const bool counted = options.dropout > 0 || !options.prefix_lengths.empty();
  if (options.window > 0 && keys > wanted && !counted) {
    const auto cut = [&](at::Tensor& x, int64_t dim) { x = x.narrow(dim, keys - wanted, wanted); };
    cut(seen.key, 2);
    cut(seen.value, 2);
    if (options.documents.defined()) cut(seen.options.documents, 1);
  }
  // Options without an effect are removed: use_libtorch() requires that there are none.
  if (options.window >= seen.key.size(2)) seen.options.window = 0;
  const bool sees_all = !options.causal || queries == 1;
  if (seen.options.window == 0 && sees_all) seen.options.prefix_lengths = {};
  return seen;
}

// Returns whether the virtual tokens make a difference. They are before the sequence, so a window
// that hides the first key of the sequence from all queries hides them, too. With dropout they make
// a difference even if hidden: they shift the positions on which the mask depends.
bool sees_virtual_tokens(const at::Tensor& query, const at::Tensor& key,
                         const AttentionOptions& options) {
  return options.virtual_tokens.count() > 0 && (options.dropout > 0 || options.window == 0 ||
                                                key.size(2) < options.window + query.size(2));
}

}  // namespace

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options) {
  check(query, key, value, options);
  if (sees_virtual_tokens(query, key, options)) {
    return attention_with_virtual_tokens(query, key, value, options);
  }
  const Seen seen = seen_by(query, key, value, options);
  return Attention::apply(with_contiguous_rows(query), with_contiguous_rows(seen.key),
                          with_contiguous_rows(seen.value), if_defined(seen.options.sinks),
                          if_defined(seen.options.relative_bias), seen.options);
}

AttentionResult empty_attention_result(const at::Tensor& query, int64_t value_size) {
  return {empty_heads(query, value_size, compute_type(query.scalar_type())),
          empty_logsumexp(query)};
}

void attend(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
            const AttentionResult& result) {
  check(part, rule);
  static const auto op = find_operator<decltype(part_cpu)>("colossal::attention_part");
  const auto [integers, numbers] = rule.packed();
  op.call(with_contiguous_rows(part.query), with_contiguous_rows(part.key),
          with_contiguous_rows(part.value), if_defined(part.query_documents),
          if_defined(part.key_documents), if_defined(part.sinks), pack_runs(part.query_positions),
          pack_runs(part.key_positions), integers, numbers, accumulate, result.output,
          result.logsumexp, if_defined(part.relative_bias));
}

void attend_backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                     const AttentionResult& result, const at::Tensor& output_gradient,
                     const AttentionGradients& gradients) {
  check(part, rule);
  static const auto op =
      find_operator<decltype(part_backward_cpu)>("colossal::attention_part_backward");
  const auto [integers, numbers] = rule.packed();
  op.call(with_contiguous_rows(output_gradient), with_contiguous_rows(part.query),
          with_contiguous_rows(part.key), with_contiguous_rows(part.value), result.output,
          result.logsumexp, if_defined(part.query_documents), if_defined(part.key_documents),
          pack_runs(part.query_positions), pack_runs(part.key_positions), integers, numbers,
          accumulate, gradients.query, gradients.key, gradients.value,
          if_defined(part.relative_bias), if_defined(gradients.relative_bias));
}

// A sink S is the score of a key whose value is zero. With P the key's probability, O the output:
// dS = P (0 - rowsum(dO * O)).
at::Tensor sink_gradient(const at::Tensor& sinks, const AttentionResult& result,
                         const at::Tensor& output_gradient) {
  const at::ScalarType type = result.logsumexp.scalar_type();
  const at::Tensor delta = (output_gradient.to(type) * result.output.to(type)).sum(-1);
  const at::Tensor probabilities = (sinks.to(type).view({1, -1, 1}) - result.logsumexp).exp_();
  const at::Tensor of_tokens = probabilities.mul_(delta).neg_().transpose(1, 2);
  return sum_rows(of_tokens.reshape({-1, sinks.size(0)})).to(sinks.scalar_type());
}

}  // namespace colossal::ops
