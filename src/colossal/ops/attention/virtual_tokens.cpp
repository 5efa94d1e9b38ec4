#include "colossal/ops/attention/virtual_tokens.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "colossal/base/error.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Samples of the batch, and the positions of their queries, counted from the first virtual token.
struct Samples {
  Range range;
  std::vector<Range> positions;
};

// Returns the positions of tokens within their documents. columns: the indices of the tokens in the
// sequence. documents: the document number of each token of the whole sequence.
std::vector<Range> positions_in_documents(const int64_t* documents,
                                          const std::vector<Range>& columns) {
  std::vector<Range> positions;
  for (const Range& run : columns) {
    int64_t begin = run.begin;  // of the document to which the column belongs
    while (begin > 0 && documents[begin - 1] == documents[begin]) --begin;
    for (int64_t column = run.begin; column < run.end; ++column) {
      const bool begins = column > 0 && documents[column] != documents[column - 1];
      if (begins) begin = column;
      if (begins || column == run.begin) positions.push_back({column - begin, column - begin});
      ++positions.back().end;
    }
  }
  return positions;
}

// Divides the batch into groups of samples whose queries have the same positions. Positions matter
// for windows and ALiBi only; if there are documents, they differ between samples.
std::vector<Samples> samples_of(const VirtualTokenQueries& queries, int64_t count,
                                const AttentionRule& rule) {
  const int64_t batch = queries.query.size(0);
  const bool by_distance = rule.window > 0 || !rule.alibi_slopes.empty();
  const at::Tensor& documents = queries.documents;
  if (!by_distance || !documents.defined() || documents.is_meta()) {
    return {{{0, batch}, behind_virtual_tokens(queries.positions, count)}};
  }
  const at::Tensor on_host = documents.cpu().contiguous();
  std::vector<Samples> samples;
  for (int64_t sample = 0; sample < batch; ++sample) {
    const int64_t* row = on_host.const_data_ptr<int64_t>() + sample * on_host.size(1);
    samples.push_back(
        {{sample, sample + 1},
         behind_virtual_tokens(positions_in_documents(row, queries.positions), count)});
  }
  return samples;
}

AttentionRule rule_of_samples(const AttentionRule& rule, const Range& samples) {
  AttentionRule part = rule;
  part.prefix_lengths.clear();  // queries see all virtual tokens without a prefix
  if (!rule.sample_ids.empty()) {
    part.sample_ids.assign(rule.sample_ids.begin() + samples.begin,
                           rule.sample_ids.begin() + samples.end);
  }
  return part;
}

AttentionPart part_of(const at::Tensor& query, const VirtualTokens& tokens,
                      const Samples& samples) {
  const auto of_samples = [&](const at::Tensor& x) {
    return x.unsqueeze(0).expand({samples.range.size(), -1, -1, -1});
  };
  return {query.narrow(0, samples.range.begin, samples.range.size()),
          of_samples(tokens.keys),
          of_samples(tokens.values),
          samples.positions,
          {{0, tokens.count()}}};
}

AttentionResult result_of(const AttentionResult& result, const Range& samples) {
  return {result.output.narrow(0, samples.begin, samples.size()),
          result.logsumexp.narrow(0, samples.begin, samples.size())};
}

}  // namespace

std::vector<Range> behind_virtual_tokens(const std::vector<Range>& positions, int64_t count) {
  std::vector<Range> behind;
  for (const Range& run : positions) behind.push_back({run.begin + count, run.end + count});
  return behind;
}

void attend_virtual_tokens(const VirtualTokenQueries& queries, const VirtualTokens& tokens,
                           const AttentionRule& rule, const AttentionResult& result) {
  if (queries.query.numel() == 0) return;
  for (const Samples& samples : samples_of(queries, tokens.count(), rule)) {
    attend(part_of(queries.query, tokens, samples), rule_of_samples(rule, samples.range),
           /*accumulate=*/true, result_of(result, samples.range));
  }
}

VirtualTokens attend_virtual_tokens_backward(const VirtualTokenQueries& queries,
                                             const VirtualTokens& tokens, const AttentionRule& rule,
                                             const AttentionResult& result,
                                             const at::Tensor& output_gradient,
                                             const at::Tensor& query_gradient) {
  const at::TensorOptions sums = tokens.keys.options().dtype(result.logsumexp.scalar_type());
  const VirtualTokens gradients{at::zeros(tokens.keys.sizes(), sums),
                                at::zeros(tokens.values.sizes(), sums)};
  if (queries.query.numel() == 0) return gradients;
  for (const Samples& samples : samples_of(queries, tokens.count(), rule)) {
    const auto& [begin, end] = samples.range;
    const AttentionPart part = part_of(queries.query, tokens, samples);
    const at::Tensor of_keys = at::empty(part.key.sizes(), sums),
                     of_values = at::empty(part.value.sizes(), sums);
    attend_backward(part, rule_of_samples(rule, samples.range), /*accumulate=*/true,
                    result_of(result, samples.range), output_gradient.narrow(0, begin, end - begin),
                    {query_gradient.narrow(0, begin, end - begin), of_keys, of_values});
    gradients.keys.add_(of_keys.sum(0));
    gradients.values.add_(of_values.sum(0));
  }
  return gradients;
}

namespace {

struct AttentionBehindVirtualTokens : torch::autograd::Function<AttentionBehindVirtualTokens> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& virtual_keys, const at::Tensor& virtual_values,
                            const std::optional<at::Tensor>& sinks,
                            const AttentionOptions& options) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const AttentionRule rule(options, query.size(3));
    const Saved saved{query,
                      key,
                      value,
                      virtual_keys,
                      virtual_values,
                      sinks.value_or(at::Tensor()),
                      options.documents};
    const AttentionResult result = empty_attention_result(query, value.size(3));
    if (query.numel() > 0) attend(saved.sequence(), rule, /*accumulate=*/false, result);
    attend_virtual_tokens(saved.queries(), saved.tokens(), rule, result);
    const at::Tensor output = result.output.to(query.scalar_type());
    context->save_for_backward({query, key, value, virtual_keys, virtual_values, saved.sinks,
                                saved.documents, output, result.logsumexp});
    rule.save(context);
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list all = context->get_saved_variables();
    const Saved saved{all[0], all[1], all[2], all[3], all[4], all[5], all[6]};
    const AttentionResult result{all[7], all[8]};
    const AttentionRule rule = AttentionRule::saved(context);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::ScalarType sum_type = result.logsumexp.scalar_type(),
                         type = saved.query.scalar_type();
    // Allocates like's shape, stored as [batch, sequence, heads, size] like the activations.
    const auto empty = [](const at::Tensor& like, at::ScalarType of) {
      return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)},
                       like.options().dtype(of))
          .transpose(1, 2);
    };
    const at::Tensor of_query = empty(saved.query, sum_type), of_key = empty(saved.key, type),
                     of_value = empty(saved.value, type);
    if (saved.query.numel() > 0) {
      attend_backward(saved.sequence(), rule, /*accumulate=*/false, result, gradients[0],
                      {of_query, of_key, of_value});
    }
    const VirtualTokens of_tokens = attend_virtual_tokens_backward(
        saved.queries(), saved.tokens(), rule, result, gradients[0], of_query);
    at::Tensor of_sinks;
    if (saved.sinks.defined()) of_sinks = sink_gradient(saved.sinks, result, gradients[0]);
    return {of_query.to(type),         of_key,   of_value, of_tokens.keys.to(type),
            of_tokens.values.to(type), of_sinks, {}};
  }

 private:
  struct Saved {
    at::Tensor query, key, value, virtual_keys, virtual_values, sinks, documents;

    VirtualTokens tokens() const { return {virtual_keys, virtual_values}; }
    // The queries are the last tokens of the sequence.
    Range query_positions() const { return {key.size(2) - query.size(2), key.size(2)}; }
    VirtualTokenQueries queries() const { return {query, {query_positions()}, documents}; }
    AttentionPart sequence() const {
      const int64_t count = virtual_keys.size(1), keys = key.size(2);
      AttentionPart part{query, key, value, behind_virtual_tokens({query_positions()}, count),
                         behind_virtual_tokens({{0, keys}}, count)};
      part.sinks = sinks;
      if (!documents.defined()) return part;
      part.key_documents = documents;
      part.query_documents = documents.narrow(1, keys - query.size(2), query.size(2));
      return part;
    }
  };
};

}  // namespace

at::Tensor attention_with_virtual_tokens(const at::Tensor& query, const at::Tensor& key,
                                         const at::Tensor& value, const AttentionOptions& options) {
  const VirtualTokens& tokens = options.virtual_tokens;
  COLOSSAL_CHECK(options.causal && !options.query_documents.defined() &&
                     options.prefix_lengths.empty() && query.size(2) <= key.size(2),
                 "virtual tokens in attention that is not causal self-attention");
  COLOSSAL_CHECK(tokens.keys.size(0) == key.size(1) && tokens.keys.size(2) == key.size(3) &&
                     tokens.values.size(2) == value.size(3),
                 "virtual tokens of {} heads of {}, keys of {} heads of {}", tokens.keys.size(0),
                 tokens.keys.size(2), key.size(1), key.size(3));
  const std::optional<at::Tensor> sinks =
      options.sinks.defined() ? std::optional(options.sinks) : std::nullopt;
  return AttentionBehindVirtualTokens::apply(query, key, value, tokens.keys, tokens.values, sinks,
                                             options);
}

}  // namespace colossal::ops
