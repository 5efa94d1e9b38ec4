#include "colossal/nn/dense_layers.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/nn/key_value_store.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/nn/memory_store.h"
#include "colossal/nn/product.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/dropout.h"
#include "colossal/ops/loss/divergence.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/ops/norm/norm.h"
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::nn {

at::Tensor DenseEmbedding::forward(const at::Tensor& tokens, const StepContext& context) {
  const at::Tensor found = look_up(tokens);
  return adapter_.add(found, tokens, {0, table_.vocabulary()}, {0, found.size(-1)}, context);
}

at::Tensor DenseEmbedding::look_up(const at::Tensor& tokens) const {
  if (const ops::QuantizedMatrix* table = table_.quantized()) {
    const LayerScope scope = scope_of(table_.whole());
    return ops::dequantized_rows(*table, tokens);
  }
  if (table_.is_cut()) return ops::look_up(table_.blocks(), tokens);
  LayerScope scope = scope_of(table_.whole());
  return at::embedding(table_.whole().use(scope), tokens);
}

DenseRelativeBias::DenseRelativeBias(ParameterHandle table, const RelativeBiasOptions& options)
    : table_(std::move(table)) {
  std::vector<int64_t> buckets;
  for (int64_t d = -options.max_distance; d <= options.max_distance; ++d) {
    buckets.push_back(relative_bucket(d, options));
  }
  buckets_ = ops::DeviceTable(at::tensor(buckets, at::kLong));
}

at::Tensor DenseRelativeBias::forward(const StepContext& context) {
  LayerScope scope = scope_of(table_);
  const at::Tensor buckets = buckets_.on(context.tokens().positions.device());
  return table_.use(scope).index_select(0, buckets).t().contiguous();
}

// The logarithm is computed in fp32, as in transformers: it decides in which bucket a distance at a
// border is.
int64_t relative_bucket(int64_t distance, const RelativeBiasOptions& options) {
  const int64_t buckets = options.bidirectional ? options.buckets / 2 : options.buckets;
  const int64_t first = options.bidirectional && distance > 0 ? buckets : 0;
  const int64_t far = options.bidirectional ? std::abs(distance) : std::max<int64_t>(0, -distance);
  const int64_t exact = buckets / 2;
  if (far < exact) return first + far;
  const float share = std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(options.max_distance) /
                                                  static_cast<double>(exact)));
  const auto further = static_cast<int64_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(exact + further, buckets - 1);
}

at::Tensor rows_of_positions(const at::Tensor& positions, int64_t first_row) {
  return first_row == 0 ? positions : positions + first_row;
}

namespace {

// Returns the context of the tokens of which this rank has activations; nullopt: of all tokens.
std::optional<StepContext> local_context(const LocalTokens& tokens, const StepContext& of_all) {
  return tokens.context ? std::optional(tokens.context(of_all)) : std::nullopt;
}

}  // namespace

at::Tensor DensePositionEmbedding::forward(const StepContext& context) {
  LayerScope scope = scope_of(weight_);
  const std::optional<StepContext> local = local_context(tokens_, context);
  const TokenGrid& here = (local ? *local : context).tokens();
  const at::Tensor rows =
      at::embedding(weight_.use(scope), rows_of_positions(here.positions, first_row_))
          .expand({here.batch, here.sequence, -1});
  return tokens_.are_flat ? rows.flatten(0, 1) : rows;
}

at::Tensor DenseLinear::forward(const at::Tensor& x, const StepContext& context) {
  LayerScope scope = scope_of(weight_);
  std::vector<ParameterHandle> bias;
  if (bias_) bias.push_back(bias_);
  return adapter_.apply(x, bias, context, scope,
                        [&](const at::Tensor& input, const std::vector<ParameterHandle>& biases) {
                          return multiply(input, {weight_}, biases, order_, scope);
                        });
}

at::Tensor DenseFusedLinear::forward(const at::Tensor& x, const StepContext& context) {
  LayerScope scope = scope_of(weights_.front());
  return adapter_.apply(x, biases_, context, scope,
                        [&](const at::Tensor& input, const std::vector<ParameterHandle>& biases) {
                          return multiply(input, weights_, biases, WeightOrder::out_in, scope);
                        });
}

at::Tensor DenseGatedActivation::forward(const at::Tensor& gate_up, const StepContext&) {
  const LayerScope scope(name_);
  return ops::activate_gate(gate_up, activation_);
}

at::Tensor DenseNorm::forward(const at::Tensor& x, const StepContext&) {
  LayerScope scope(parts_.name);
  const auto [weight, bias] = parts_.use(scope);
  if (!parts_.centered) return ops::rms_norm(x, weight, parts_.epsilon, parts_.unit_offset);
  return ops::layer_norm(x, weight, bias, parts_.epsilon, parts_.unit_offset);
}

std::pair<at::Tensor, at::Tensor> DenseNorm::add_forward(const at::Tensor& x,
                                                         const at::Tensor& branch,
                                                         const StepContext&) {
  LayerScope scope(parts_.name);
  const auto [weight, bias] = parts_.use(scope);
  if (!parts_.centered) {
    return ops::add_rms_norm(x, branch, weight, parts_.epsilon, parts_.unit_offset);
  }
  return ops::add_layer_norm(x, branch, weight, bias, parts_.epsilon, parts_.unit_offset);
}

at::Tensor DenseDropout::forward(const at::Tensor& x, const StepContext& context) {
  if (!context.training || probability_ == 0) return x;
  const LayerScope scope(stream_);
  const std::optional<StepContext> local = local_context(tokens_, context);
  const StepContext& here = local ? *local : context;
  const at::Tensor dropped =
      ops::dropout(tokens_.are_flat ? x.unsqueeze(1) : x, probability_,
                   random_key(context.seed, static_cast<uint64_t>(context.step), stream_),
                   here.sample_ids, here.tokens().positions, tokens_.first_feature);
  return tokens_.are_flat ? dropped.squeeze(1) : dropped;
}

DenseAttention::DenseAttention(std::string stream, const AttentionOptions& options,
                               const LocalHeads& here, const AttentionParameters& parameters)
    : layer_(options.layer),
      heads_(options, here),
      head_options_(std::move(stream), options, here, parameters) {}

at::Tensor DenseAttention::forward(const at::Tensor& qkv, const at::Tensor& relative_bias,
                                   const StepContext& context) {
  LayerScope scope(head_options_.stream());
  auto [queries, keys, values] = heads_.split(heads_.apply_rotary(qkv, context));
  keys = heads_.select_used_kv_heads(keys);
  values = heads_.select_used_kv_heads(values);
  ops::AttentionOptions options = head_options_.of_step(scope, context);
  options.relative_bias = relative_bias;
  if (options.virtual_tokens.count() > 0) {
    options.virtual_tokens = select_used_kv_heads(options.virtual_tokens);
  }
  at::Tensor seen;
  if (context.services.key_values) {
    COLOSSAL_CHECK(context.tokens().whole_sequence <= context.tokens().sequence,
                   "a sequence of {} positions over several ranks with kept keys and values",
                   context.tokens().whole_sequence);
    seen = context.services.key_values->attend(layer_, queries, keys, values, options,
                                               rows_with_virtual_tokens(context));
  } else {
    options.documents = context.tokens().documents;
    options.document_lengths = context.tokens().document_lengths;
    seen = attend(queries, keys, values, options, context);
  }
  return seen.transpose(1, 2).flatten(2);
}

ops::VirtualTokens DenseAttention::select_used_kv_heads(const ops::VirtualTokens& tokens) const {
  const auto seen = [&](const at::Tensor& heads) {
    return heads_.select_used_kv_heads(heads.unsqueeze(0)).squeeze(0);
  };
  return {seen(tokens.keys), seen(tokens.values)};
}

std::vector<RowsWithVirtualTokens> DenseAttention::rows_with_virtual_tokens(
    const StepContext& context) const {
  std::vector<RowsWithVirtualTokens> rows;
  for (const auto& [adapter, begin, count] : context.services.adapted_rows) {
    const auto found = adapter->virtual_tokens.find(head_options_.stream());
    if (found != adapter->virtual_tokens.end()) {
      rows.push_back({select_used_kv_heads(found->second), begin, count});
    }
  }
  return rows;
}

at::Tensor DenseAttention::attend(const at::Tensor& queries, const at::Tensor& keys,
                                  const at::Tensor& values, const ops::AttentionOptions& options,
                                  const StepContext&) const {
  return ops::attention(queries, keys, values, options);
}

DenseCrossAttention::DenseCrossAttention(std::string stream, const AttentionOptions& options,
                                         const LocalHeads& here,
                                         const AttentionParameters& parameters,
                                         std::optional<DividedSequences> divided)
    : layer_(options.layer),
      memory_stack_(options.memory_stack),
      heads_(options, here),
      head_options_(std::move(stream), options, here, parameters),
      divided_(std::move(divided)) {
  COLOSSAL_CHECK(
      !options.causal && options.window == 0 && options.alibi == 0 && options.rotary.base == 0,
      "{}: the positions of a memory are not those of its queries", head_options_.stream());
  COLOSSAL_CHECK(options.query_key_norm.kind == QueryKeyNormOptions::Kind::none,
                 "{}: no norms of queries and keys in cross-attention", head_options_.stream());
}

at::Tensor DenseCrossAttention::query_documents(const StepContext& context) const {
  if (!context.tokens().documents.defined()) {
    return at::zeros({context.tokens().batch, context.tokens().sequence},
                     memory(context).documents.options());
  }
  if (!divided_) return context.tokens().documents;
  std::vector<at::Tensor> of_runs;
  for (const Range& run : divided_->positions(context.tokens().whole_sequence)) {
    of_runs.push_back(context.tokens().documents.narrow(1, run.begin, run.size()));
  }
  return at::cat(of_runs, 1);
}

at::Tensor DenseCrossAttention::forward(const at::Tensor& query, const at::Tensor& key_value,
                                        const StepContext& context) {
  LayerScope scope(head_options_.stream());
  const at::Tensor queries = heads_.split_queries(query);
  const at::Tensor whole =
      divided_ ? divided_->gather(key_value, memory(context).whole_sequence) : key_value;
  ops::AttentionOptions options = head_options_.of_step(scope, context);
  options.prefix_lengths = {};
  if (options.dropout > 0) {
    // Positions in the target alone: how far the source is padded must not change the mask.
    options.query_positions = divided_ ? divided_->positions(context.tokens().whole_sequence)
                                       : std::vector<Range>{{0, queries.size(2)}};
  }
  if (memory(context).documents.defined()) {
    options.documents = memory(context).documents;
    options.query_documents = query_documents(context);
  }
  return attend(queries, whole, options).transpose(1, 2).flatten(2);
}

at::Tensor DenseCrossAttention::forward_stored(const at::Tensor& query,
                                               const StepContext& context) {
  COLOSSAL_CHECK(!divided_, "{}: generation over ranks of sp", head_options_.stream());
  LayerScope scope(head_options_.stream());
  const at::Tensor queries = heads_.split_queries(query);
  const ops::AttentionOptions options = head_options_.of_step(scope, context);
  std::vector<at::Tensor> results;
  int64_t row = 0;
  for (const auto& [source, count] : context.services.memories->chunks()) {
    results.push_back(attend(queries.narrow(2, row, count),
                             context.services.memories->key_value(layer_, source), options));
    row += count;
  }
  COLOSSAL_CHECK(row == queries.size(2), "{} tokens, {} of them with a source", queries.size(2),
                 row);
  return at::cat(results, 2).transpose(1, 2).flatten(2);
}

at::Tensor DenseCrossAttention::attend(const at::Tensor& queries, const at::Tensor& key_value,
                                       const ops::AttentionOptions& options) const {
  const auto [keys, values] = heads_.split_keys_values(key_value);
  return ops::attention(queries, heads_.select_used_kv_heads(keys),
                        heads_.select_used_kv_heads(values), options);
}

at::Tensor DenseVocabularyHead::loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                         const StepContext& context) {
  LayerScope scope("vocabulary_head");
  const TokenTable& table = parts_.table;
  const at::Tensor tokens = x.flatten(0, 1);
  const ops::LogitOptions options = parts_.logit_options(tokens, context, scope);
  if (parts_.computes_by_blocks(context)) {
    return ops::linear_cross_entropy(tokens, table.blocks("vocabulary_head"), labels.flatten(),
                                     table.vocabulary(), {}, nullptr, options);
  }
  return ops::linear_cross_entropy(tokens, table.whole().use(scope), labels.flatten(), options);
}

at::Tensor DenseVocabularyHead::log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                                  double temperature, const StepContext& context) {
  LayerScope scope("vocabulary_head");
  const TokenTable& table = parts_.table;
  const at::Tensor tokens = x.flatten(0, 1);
  return ops::linear_log_probabilities(tokens, table.blocks("vocabulary_head"), labels.flatten(),
                                       table.vocabulary(), {}, nullptr,
                                       parts_.logit_options(tokens, context, scope, temperature))
      .view(labels.sizes());
}

at::Tensor DenseVocabularyHead::divergences(const at::Tensor& x, const at::Tensor& teacher,
                                            double beta, double temperature,
                                            const StepContext& context) {
  return ops::divergence(logits_here(x, temperature, context), teacher, beta)
      .view({x.size(0), x.size(1)});
}

at::Tensor DenseVocabularyHead::logits(const at::Tensor& x, const StepContext& context,
                                       const at::Tensor& wanted) {
  if (!wanted.defined()) return parts_.logits_here(x, context);
  return parts_.logits_of_wanted(wanted_rows(x.flatten(0, 1), wanted), wanted, context);
}

}  // namespace colossal::nn
