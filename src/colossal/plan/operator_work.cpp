#include "colossal/plan/operator_work.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_map>

#include "colossal/layout/runs.h"
#include "colossal/ops/attention/attention_rule.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::plan {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
using Rule = OperatorWork (*)(Arguments arguments);

// Returns the work of `times` products of [rows, inner] by [inner, columns]. elements: of all left
// matrices.
OperatorWork products(double elements, int64_t rows, int64_t inner, int64_t columns,
                      double times = 1) {
  return {.kind = OperatorKind::product,
          .flops = 2 * times * elements * static_cast<double>(columns),
          .narrowest = std::min({rows, inner, columns})};
}

// The operands are two matrices or batches of them, [.., m, k] and [.., k, n]; the left one has all
// batches.
template <size_t first>
OperatorWork product(Arguments arguments) {
  const at::Tensor &a = arguments[first].toTensor(), &b = arguments[first + 1].toTensor();
  return products(static_cast<double>(a.numel()), a.dim() == 1 ? 1 : a.size(-2), a.size(-1),
                  b.dim() == 1 ? 1 : b.size(-1));
}

OperatorWork linear(Arguments arguments) {
  const at::Tensor &x = arguments[0].toTensor(), &weight = arguments[1].toTensor();
  const int64_t inner = weight.size(-1);
  return products(static_cast<double>(x.numel()), inner == 0 ? 0 : x.numel() / inner, inner,
                  weight.size(0));
}

// If the logits are kept, the backward pass computes the weight's gradient, not this operator.
OperatorWork linear_cross_entropy(Arguments arguments) {
  const at::Tensor &x = arguments[0].toTensor(), &weight = arguments[1].toTensor();
  const bool x_gradient = arguments[3].toBool();
  const bool weight_gradient = arguments[4].toBool() && !ops::linear_cross_entropy_keeps_logits(
                                                            x.size(0), x.size(1), weight.size(0),
                                                            x.scalar_type(), arguments[5].toInt());
  const int times = 1 + (x_gradient ? 1 : 0) + (weight_gradient ? 1 : 0);
  OperatorWork work =
      products(static_cast<double>(x.numel()), x.size(0), x.size(1), weight.size(0), times);
  work.logits = static_cast<double>(x.size(0)) * static_cast<double>(weight.size(0));
  return work;
}

// Counts pairs of a query and a key in which the key is at most `ahead` positions after the query.
double pairs_up_to(int64_t ahead, const std::vector<Range>& queries,
                   const std::vector<Range>& keys) {
  double pairs = 0;
  for (const Range& query : queries) {
    for (const Range& of_keys : keys) {
      const Range key{of_keys.begin - ahead, of_keys.end - ahead};
      // Query p sees the shifted keys up to p: first no key, then one more per query, then all
      // keys.
      const Range rising = intersect(query, key);
      const double first = static_cast<double>(rising.begin - key.begin + 1);
      const double last = static_cast<double>(rising.end - key.begin);
      if (!rising.empty()) pairs += (first + last) / 2 * static_cast<double>(rising.size());
      const int64_t beyond = query.end - std::clamp(key.end, query.begin, query.end);
      pairs += static_cast<double>(beyond) * static_cast<double>(key.size());
    }
  }
  return pairs;
}

double all_pairs(const std::vector<Range>& queries, const std::vector<Range>& keys) {
  return static_cast<double>(num_indices(queries)) * static_cast<double>(num_indices(keys));
}

// Counts pairs within causality and window.
double near_pairs(const ops::AttentionRule& rule, const std::vector<Range>& queries,
                  const std::vector<Range>& keys) {
  if (!rule.causal && rule.window == 0) return all_pairs(queries, keys);
  const double up_to_end = pairs_up_to(rule.causal ? 0 : rule.window - 1, queries, keys);
  return rule.window == 0 ? up_to_end : up_to_end - pairs_up_to(-rule.window, queries, keys);
}

// Counts pairs of a query and a key that it sees, as the mean over the samples; ignores documents.
double seen_pairs(const ops::AttentionRule& rule, const std::vector<Range>& queries,
                  const std::vector<Range>& keys) {
  double of_prefixes = 0;
  for (const int64_t length : rule.prefix_lengths) {
    std::vector<Range> prefix;
    for (const Range& run : keys) prefix.push_back(intersect(run, {0, length}));
    of_prefixes += all_pairs(queries, prefix) - near_pairs(rule, queries, prefix);
  }
  const auto samples = static_cast<double>(std::max<size_t>(1, rule.prefix_lengths.size()));
  return near_pairs(rule, queries, keys) + of_prefixes / samples;
}

ops::AttentionRule add_anonymous_rule(Arguments arguments, size_t first) {
  return ops::AttentionRule::unpacked(arguments[first].toIntVector(),
                                      arguments[first + 1].toDoubleVector());
}

// Returns the FLOPs of a query-key pair, over all sequences and heads. Forward: scores and sums of
// values. Backward: scores, the gradient of the probabilities, and the gradients of queries, keys
// and values.
double pair_flops(const at::Tensor& query, const at::Tensor& value, bool backward) {
  const auto heads = static_cast<double>(query.size(0) * query.size(1));
  const auto size = static_cast<double>(query.size(3)), values = static_cast<double>(value.size(3));
  return 2 * heads * (backward ? 3 * size + 2 * values : size + values);
}

OperatorWork attention_work(double flops, bool backward) {
  return {.kind = backward ? OperatorKind::attention_backward : OperatorKind::attention,
          .flops = flops};
}

template <bool backward>
OperatorWork attention(Arguments arguments) {
  constexpr size_t first = backward ? 1 : 0;  // after the gradient of the output
  const at::Tensor& query = arguments[first].toTensor();
  const at::Tensor& key = arguments[first + 1].toTensor();
  const at::Tensor& value = arguments[first + 2].toTensor();
  const ops::AttentionRule rule = add_anonymous_rule(arguments, backward ? 7 : 4);
  const int64_t queries = query.size(2), keys = key.size(2);
  return attention_work(
      seen_pairs(rule, {{keys - queries, keys}}, {{0, keys}}) * pair_flops(query, value, backward),
      backward);
}

template <bool backward>
OperatorWork attention_part(Arguments arguments) {
  constexpr size_t first = backward ? 1 : 0;
  constexpr size_t positions = backward ? 8 : 6;
  const auto runs = [&](size_t index) { return ops::unpack_runs(arguments[index].toIntVector()); };
  const double pairs = seen_pairs(add_anonymous_rule(arguments, positions + 2), runs(positions),
                                  runs(positions + 1));
  return attention_work(
      pairs * pair_flops(arguments[first].toTensor(), arguments[first + 2].toTensor(), backward),
      backward);
}

OperatorWork few_rows_product(Arguments arguments) {
  const at::Tensor& x = arguments[1].toTensor();
  int64_t outputs = 0;
  for (const at::Tensor& weight : arguments[2].toTensorVector()) outputs += weight.size(0);
  const int64_t inner = x.size(-1);
  return products(static_cast<double>(x.numel()), inner == 0 ? 0 : x.numel() / inner, inner,
                  outputs);
}

OperatorWork code_product(Arguments arguments) {
  const at::Tensor &x = arguments[0].toTensor(), &y = arguments[6].toTensor();
  const int64_t inner = x.size(-1);
  return products(static_cast<double>(x.numel()), inner == 0 ? 0 : x.numel() / inner, inner,
                  y.size(-1));
}

// One of the two halves of a cross-entropy, beside its products: the statistics of the logits, and
// their gradient.
OperatorWork half_of_cross_entropy(Arguments arguments) {
  return {.kind = OperatorKind::product,
          .logits = static_cast<double>(arguments[0].toTensor().numel()) / 2};
}

// Operators without products, and those whose time is that of the bytes they read in spite of them.
OperatorWork other(Arguments) {
  return {};
}

const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> kRules{
      {"aten::mm", product<0>},
      {"aten::mm.out", product<0>},
      {"aten::mv", product<0>},
      {"aten::dot", product<0>},
      {"aten::bmm", product<0>},
      {"aten::bmm.out", product<0>},
      {"aten::matmul", product<0>},
      {"aten::addmm", product<1>},
      {"aten::addmm.out", product<1>},
      {"aten::addmm_", product<1>},
      {"aten::baddbmm", product<1>},
      {"aten::linear", linear},
      {"colossal::few_rows_product", few_rows_product},
      {"colossal::summed_product", product<0>},
      {"colossal::rounded_product", product<0>},
      {"colossal::tile_product", product<0>},
      {"colossal::linear_cross_entropy", linear_cross_entropy},
      {"colossal::softmax_statistics", half_of_cross_entropy},
      {"colossal::cross_entropy_gradient_", half_of_cross_entropy},
      {"colossal::code_product", code_product},
      {"colossal::attention", attention<false>},
      {"colossal::attention_backward", attention<true>},
      {"colossal::attention_part", attention_part<false>},
      {"colossal::attention_part_backward", attention_part<true>},
      {"colossal::fill_normal_", other},
      {"colossal::dropout", other},
      {"colossal::adamw_", other},
      {"colossal::accumulate_", other},
      {"colossal::convert_copy_", other},
      {"colossal::squared_norm", other},
      {"colossal::all_finite", other},
      {"colossal::norm", other},
      {"colossal::norm_backward", other},
      {"colossal::norm_sums", other},
      {"colossal::normalize", other},
      {"colossal::norm_gradient_sums", other},
      {"colossal::norm_input_gradient", other},
      {"colossal::activation", other},
      {"colossal::activation_backward", other},
      {"colossal::gated_activation", other},
      {"colossal::gated_activation_backward", other},
      {"colossal::write_to_pages", other},
      {"colossal::paged_attention", other},
      {"colossal::head_norm", other},
      {"colossal::head_norm_backward", other},
      {"colossal::rotary", other},
      {"colossal::sum_rows", other},
      {"colossal::scale_copy_", other},
  };
  return kRules;
}

}  // namespace

bool has_rule(const std::string& name) {
  return rules().contains(name);
}

OperatorWork work_of(const std::string& name, Arguments arguments) {
  const auto rule = rules().find(name);
  return rule == rules().end() ? OperatorWork{} : rule->second(arguments);
}

}  // namespace colossal::plan
