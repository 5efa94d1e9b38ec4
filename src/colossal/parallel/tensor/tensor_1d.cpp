#include "colossal/parallel/tensor/tensor_1d.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/layout/heads.h"
#include "colossal/layout/partition.h"
#include "colossal/nn/dense_layers.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/nn/product.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/ops/loss/divergence.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/ops/product/fused_linear.h"
#include "colossal/ops/product/quantized_matrix.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/saved_group.h"
#include "colossal/parallel/tensor/shared_norm.h"
#include "colossal/parallel/tensor/vocabulary.h"

namespace colossal::parallel {
namespace {

using nn::ParameterHandle;
using nn::StepContext;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor flat_tokens(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

using Cut = LinearSharding::Cut;
using Ranks = Tensor1dRanks;

std::vector<at::Tensor> transposed_if(bool wanted, std::vector<at::Tensor> weights) {
  if (wanted) {
    for (at::Tensor& weight : weights) weight = weight.t();
  }
  return weights;
}

// The first linear layer of a pair: y = x weight^T + bias for this rank's outputs; the outputs of
// several weights are concatenated. It contains begin_pair(), so that backward overlaps all
// communication with products. With share_tokens it saves only this rank's tokens of x: backward
// gathers x again.
struct FirstProduct : torch::autograd::Function<FirstProduct> {
  // Autograd finds the tensors in an at::TensorList, but not in a std::vector.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList weights,
                            at::TensorList biases, bool in_out, bool share_tokens,
                            const Shares& rows) {
    const bool trained = ops::any_requires_grad(weights);
    variable_list saved{trained ? x : at::Tensor()};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["sizes"] = x.sizes();
    context->saved_data["trained"] = trained;
    context->saved_data["biases"] = !biases.empty();
    context->saved_data["in_out"] = in_out;
    context->saved_data["share_tokens"] = share_tokens;
    save_group(context, *rows.group);
    context->saved_data["rows"] = rows.total();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor all = share_tokens ? start_gather_rows(x, rows).wait() : flat_tokens(x);
    return ops::fused_product(all, {transposed_if(in_out, weights.vec()), biases.vec()});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const bool in_out = data["in_out"].toBool(), share_tokens = data["share_tokens"].toBool();
    const bool trained = data["trained"].toBool();
    const Shares rows = Shares::even(saved_group(context), data["rows"].toInt());
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor& y_gradient = gradients[0];
    Pending all{saved[0], {}, {}};
    if (share_tokens && trained) all = start_gather_rows(saved[0], rows);
    const std::vector<at::Tensor> weights = transposed_if(in_out, {saved.begin() + 1, saved.end()});
    const auto start_x_gradient = [&]() -> Pending {
      const at::Tensor all_gradient = ops::fused_input_gradient(y_gradient, weights);
      return share_tokens ? start_reduce_scatter_rows(all_gradient, rows)
                          : start_sum(all_gradient, *rows.group);
    };
    Pending x_gradient;
    if (context->needs_input_grad(0)) x_gradient = start_x_gradient();
    const auto wait_for_x_gradient = [&] {
      const at::Tensor gradient = x_gradient.wait();
      return gradient.defined() ? gradient.view(data["sizes"].toIntVector()) : gradient;
    };
    const bool biases = data["biases"].toBool();
    std::vector<int64_t> out_features;
    for (const at::Tensor& weight : weights) out_features.push_back(weight.size(0));
    const auto made = ops::FusedGradientRequest::all(out_features, biases, in_out);
    // + 3: in_out, share_tokens and rows have no gradient
    variable_list result(1 + made.wanted.size() + 3);
    if (!trained) {
      result[0] = wait_for_x_gradient();
      return result;
    }
    const auto of_weights = [=, x = flat_tokens(all.wait())] {
      return ops::fused_weight_gradients(y_gradient, x, made);
    };
    if (ops::DeferredGradients* const later = ops::DeferredGradients::of_this_thread()) {
      later->defer_gradients(1, of_weights);
    } else {
      std::ranges::move(of_weights(), result.begin() + 1);
    }
    result[0] = wait_for_x_gradient();
    return result;
  }
};

class FirstLinear : public nn::Linear {
 public:
  // biases: one for each weight, or none.
  FirstLinear(std::vector<ParameterHandle> weights, std::vector<ParameterHandle> biases,
              nn::WeightOrder order, Ranks ranks, nn::LowRankAdapter adapter)
      : weights_(std::move(weights)),
        biases_(std::move(biases)),
        order_(order),
        ranks_(ranks),
        adapter_(std::move(adapter)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    nn::LayerScope scope = nn::scope_of(weights_.front());
    const at::Tensor y =
        adapter_.apply(x, biases_, context, scope,
                       [&](const at::Tensor& input, const std::vector<ParameterHandle>& biases) {
                         return product(input, biases, context, scope);
                       });
    return y.view({context.tokens().batch, context.tokens().sequence, y.size(-1)});
  }

 private:
  // Returns [tokens, outputs of this rank].
  at::Tensor product(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                     const StepContext& context, nn::LayerScope& scope) {
    if (nn::are_packed_or_quantized(weights_)) {
      return flat_tokens(
          nn::multiply(ranks_.begin_pair(x, context), weights_, biases, order_, scope));
    }
    const std::vector<at::Tensor> added = nn::used(biases, scope),
                                  weights = nn::used(weights_, scope);
    return FirstProduct::apply(x, at::TensorList(weights), at::TensorList(added),
                               order_ == nn::WeightOrder::in_out, ranks_.share_tokens,
                               ranks_.rows(context));
  }

  std::vector<ParameterHandle> weights_, biases_;
  nn::WeightOrder order_;
  Ranks ranks_;
  nn::LowRankAdapter adapter_;
};

// The second linear layer of a pair, which multiplies this rank's inputs; end_pair() sums the
// results over the ranks.
class SecondLinear : public nn::Linear {
 public:
  SecondLinear(ParameterHandle weight, ParameterHandle bias, nn::WeightOrder order, Ranks ranks,
               nn::LowRankAdapter adapter)
      : weight_(std::move(weight)),
        bias_(std::move(bias)),
        order_(order),
        ranks_(ranks),
        adapter_(std::move(adapter)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    nn::LayerScope scope = nn::scope_of(weight_);
    const at::Tensor y =
        adapter_.apply(x, {}, context, scope, [&](const at::Tensor& input, const auto&) {
          return ranks_.end_pair(nn::multiply(input, {weight_}, {}, order_, scope), context);
        });
    return bias_ ? y + bias_.use(scope) : y;
  }

 private:
  ParameterHandle weight_;
  ParameterHandle bias_;  // empty: no bias
  nn::WeightOrder order_;
  Ranks ranks_;
  nn::LowRankAdapter adapter_;
};

class VocabularyEmbedding : public nn::Embedding {
 public:
  VocabularyEmbedding(nn::TokenTable table, nn::EmbeddingAdapter adapter, Ranks ranks)
      : table_(std::move(table)), adapter_(std::move(adapter)), ranks_(ranks) {}

  at::Tensor forward(const at::Tensor& tokens, const StepContext& context) override {
    const at::Tensor found = look_up(tokens);
    return ranks_.end_pair(
        adapter_.add(found, tokens, table_.rows_here(), {0, found.size(-1)}, context), context);
  }

 private:
  // Returns zeros for tokens whose rows another rank holds.
  at::Tensor look_up(const at::Tensor& tokens) const {
    if (table_.is_cut()) return ops::look_up(table_.blocks(), tokens);
    const ParameterHandle& weight = table_.whole();
    nn::LayerScope scope = nn::scope_of(weight);
    const Range here = nn::rows_here(*weight);
    if (const ops::QuantizedMatrix* table = table_.quantized()) {
      const auto numbers = [&](const at::Tensor& rows) {
        return ops::dequantized_rows(*table, rows);
      };
      return look_up_rows(numbers, here, tokens);
    }
    return look_up_rows(weight.use(scope), here, tokens);
  }

  nn::TokenTable table_;
  nn::EmbeddingAdapter adapter_;
  Ranks ranks_;
};

class VocabularyHead : public nn::VocabularyHead {
 public:
  VocabularyHead(nn::VocabularyHeadParts parts, Ranks ranks)
      : parts_(std::move(parts)), ranks_(ranks) {}

  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const StepContext& context) override {
    nn::LayerScope scope("vocabulary_head");
    const nn::TokenTable& table = parts_.table;
    const ops::VocabularyShard shard = vocabulary_shard(table.vocabulary(), ranks_.group);
    const at::Tensor tokens = ranks_.begin_pair(x, context).flatten(0, 1);
    const ops::LogitOptions options = parts_.logit_options(tokens, context, scope);
    if (parts_.computes_by_blocks(context)) {
      return ops::linear_cross_entropy(tokens, table.blocks("vocabulary_head"), labels.flatten(),
                                       shard.vocabulary, shard.combine, nullptr, options,
                                       parts_.rows.begin);
    }
    return ops::linear_cross_entropy(tokens, table.whole().use(scope), labels.flatten(), shard,
                                     options);
  }

  at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels, double temperature,
                               const StepContext& context) override {
    nn::LayerScope scope("vocabulary_head");
    const nn::TokenTable& table = parts_.table;
    const ops::VocabularyShard shard = vocabulary_shard(table.vocabulary(), ranks_.group);
    const at::Tensor tokens = ranks_.begin_pair(x, context).flatten(0, 1);
    return ops::linear_log_probabilities(tokens, table.blocks("vocabulary_head"), labels.flatten(),
                                         shard.vocabulary, shard.combine, nullptr,
                                         parts_.logit_options(tokens, context, scope, temperature),
                                         parts_.rows.begin)
        .view(labels.sizes());
  }

  at::Tensor logits_here(const at::Tensor& x, double temperature,
                         const StepContext& context) override {
    return parts_.logits_here(ranks_.begin_pair(x, context).flatten(0, 1), context, temperature);
  }

  at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                         double temperature, const StepContext& context) override {
    const ops::VocabularyShard shard = vocabulary_shard(parts_.table.vocabulary(), ranks_.group);
    return ops::divergence(logits_here(x, temperature, context), teacher, beta, &shard)
        .view({context.tokens().batch, context.tokens().sequence});
  }

  // Each rank pads its columns with zeros; the sum over the ranks has all columns.
  at::Tensor scores(const at::Tensor& x, const StepContext& context) override {
    nn::LayerScope scope("vocabulary_head");
    const at::Tensor used = ranks_.begin_pair(x, context);
    std::vector<at::Tensor> parts;
    parts_.table.blocks("vocabulary_head")(
        [&](const at::Tensor& rows, int64_t) { parts.push_back(at::linear(used, rows)); });
    const at::Tensor part =
        ops::logits_from_products(at::cat(parts, -1), parts_.logit_options(used, context, scope));
    const int64_t after = parts_.table.vocabulary() - parts_.rows.end;
    return reduce_from_tensor_parallel(at::constant_pad_nd(part, {parts_.rows.begin, after}),
                                       ranks_.group);
  }

  at::Tensor logits(const at::Tensor& x, const StepContext& context,
                    const at::Tensor& wanted) override {
    const at::Tensor tokens = flat_tokens(ranks_.begin_pair(x, context));
    const at::Tensor part = parts_.logits_of_wanted(
        wanted.defined() ? nn::wanted_rows(tokens, wanted) : tokens, wanted, context);
    const at::Tensor all =
        gather_columns(part, Shares::even(ranks_.group, parts_.table.vocabulary()));
    return wanted.defined() ? all
                            : all.view({context.tokens().batch, context.tokens().sequence, -1});
  }

  at::Tensor gathered_states(const at::Tensor& x, const StepContext& context,
                             const at::Tensor& wanted) override {
    return nn::wanted_rows(flat_tokens(ranks_.begin_pair(x, context)), wanted);
  }

 private:
  nn::VocabularyHeadParts parts_;
  Ranks ranks_;
};

std::vector<Range> all_of(int64_t size) {
  return {{0, size}};
}

std::vector<std::vector<Range>> in_order(nn::WeightOrder order, const std::vector<Range>& in,
                                         const std::vector<Range>& out) {
  return order == nn::WeightOrder::in_out ? std::vector{in, out} : std::vector{out, in};
}

}  // namespace

Shares Tensor1dRanks::rows(const StepContext& context) const {
  return Shares::even(group, context.tokens().batch * context.tokens().sequence);
}

at::Tensor Tensor1dRanks::begin_pair(const at::Tensor& x, const StepContext& context) const {
  if (!share_tokens) return copy_to_tensor_parallel(x, group);
  return gather_rows(x, rows(context))
      .view({context.tokens().batch, context.tokens().sequence, x.size(-1)});
}

at::Tensor Tensor1dRanks::end_pair(const at::Tensor& x, const StepContext& context) const {
  return share_tokens ? reduce_scatter_rows(x.flatten(0, 1), rows(context))
                      : reduce_from_tensor_parallel(x, group);
}

Tensor1dBuilder::Tensor1dBuilder(const ParallelContext& context, Shardings shardings,
                                 nn::MakeAttention make_attention, int64_t table_rows)
    : ExpertBuilder(context, std::move(make_attention), table_rows),
      ranks_{context.group(Axis::tp), context.strategy().tp_sequence},
      shardings_(std::move(shardings)) {
  check_key_value_replicas(context.strategy(), shardings_);
}

nn::Placement Tensor1dBuilder::whole() const {
  if (ranks_.share_tokens) return {.reduction = &context().along({"dp", "sp", "tp"})};
  return {.num_replicas = ranks_.group.size(), .replica = ranks_.group.rank()};
}

nn::TokenTable Tensor1dBuilder::vocabulary_table(const std::string& name,
                                                 const nn::EmbeddingOptions& options) {
  const Partition parts(options.vocabulary, ranks_.group.size());
  std::vector<Range> rows;
  for (int rank = 0; rank < ranks_.group.size(); ++rank) rows.push_back(parts.range(rank));
  return token_table(name, options, rows, ranks_.group.rank());
}

std::unique_ptr<nn::Embedding> Tensor1dBuilder::embedding(const std::string& name,
                                                          const nn::EmbeddingOptions& options) {
  nn::TokenTable table = vocabulary_table(name, options);
  return std::make_unique<VocabularyEmbedding>(std::move(table), embedding_adapter(name, options),
                                               ranks_);
}

nn::TokenPart Tensor1dBuilder::token_part() const {
  if (!ranks_.share_tokens) return nullptr;
  return [ranks = ranks_](const at::Tensor& tokens, const StepContext& context) {
    const Range here = ranks.rows(context).here();
    return tokens.flatten(0, 1).narrow(0, here.begin, here.size());
  };
}

// Each token is a sequence of its own.
nn::LocalTokens Tensor1dBuilder::local_tokens() const {
  if (!ranks_.share_tokens) return {};
  const auto context_of = [ranks = ranks_](const StepContext& context) {
    const nn::TokenGrid& all = context.tokens();
    const Range here = ranks.rows(context).here();
    const at::Tensor token = at::arange(here.begin, here.end, all.positions.options());
    const bool of_rows = all.positions.dim() == 2;
    StepContext local = context;
    nn::TokenGrid& grid = local.tokens();
    grid = {.batch = here.size(), .sequence = 1};
    grid.positions = all.positions.flatten()
                         .index_select(0, of_rows ? token : token.remainder(all.sequence))
                         .unsqueeze(1);
    local.sample_ids.clear();
    for (int64_t row = here.begin; row < here.end; ++row) {
      local.sample_ids.push_back(context.sample_ids[row / all.sequence]);
    }
    return local;
  };
  return {.context = context_of, .are_flat = true};
}

nn::SumOfParts Tensor1dBuilder::sum_of_parts() const {
  if (!ranks_.share_tokens) return nullptr;
  return [&group = ranks_.group](const at::Tensor& part) {
    return reduce_from_tensor_parallel(part, group);
  };
}

std::unique_ptr<nn::Linear> Tensor1dBuilder::linear(const std::string& name,
                                                    const nn::LinearOptions& options) {
  const auto found = tower_sharding().products.find(name);
  if (found == tower_sharding().products.end()) return DenseBuilder::linear(name, options);
  const LinearSharding& sharding = found->second;
  if (sharding.cut == Cut::outputs) {
    auto [weight, bias] = first_product(name, options, sharding);
    const AdaptedInput input = input_of_first(options.in_features);
    auto linear = std::make_unique<FirstLinear>(
        std::vector{weight}, bias ? std::vector{bias} : std::vector<ParameterHandle>{},
        options.order, ranks_,
        adapter({{name, options.out_features, of_first_outputs(sharding), weight}}, input));
    return with_input_dropout(name, options, input, std::move(linear));
  }
  auto [weight, bias] = linear_parameters(
      name, options,
      {.held = in_order(options.order, held_here(sharding), all_of(options.out_features))},
      whole());
  const AdaptedInput input = input_of_second(options.in_features, held_here(sharding));
  auto linear = std::make_unique<SecondLinear>(
      weight, bias, options.order, ranks_,
      adapter({{name, options.out_features, whole(), weight}}, input));
  return with_input_dropout(name, options, input, std::move(linear));
}

std::unique_ptr<nn::Linear> Tensor1dBuilder::fused_linear(const nn::FusedLinearOptions& options) {
  std::vector<ParameterHandle> weights, biases;
  std::vector<AdaptedProduct> products;
  for (const nn::FusedLinearOptions::Part& part : options.parts) {
    const auto found = tower_sharding().products.find(part.name);
    COLOSSAL_CHECK(found != tower_sharding().products.end() && found->second.cut == Cut::outputs,
                   "{}: a product side by side with others, and no cut of its outputs", part.name);
    auto [weight, bias] = first_product(part.name, nn::part_of(options, part), found->second);
    weights.push_back(weight);
    if (bias) biases.push_back(bias);
    products.push_back({part.name, part.out_features, of_first_outputs(found->second), weight});
  }
  return std::make_unique<FirstLinear>(std::move(weights), std::move(biases),
                                       nn::WeightOrder::out_in, ranks_,
                                       adapter(products, input_of_first(options.in_features)));
}

// The adapter's intermediate activation z = x A^T has few features. It moves to the layout within a
// pair as x does.
nn::DenseBuilder::AdaptedInput Tensor1dBuilder::input_of_first(int64_t in_features) {
  return {
      .features = in_features,
      .of_a = whole(),
      .layout_change = {.move = [ranks = ranks_](const at::Tensor& z, const StepContext& context) {
        return ranks.begin_pair(z, context);
      }}};
}

nn::DenseBuilder::AdaptedInput Tensor1dBuilder::input_of_second(int64_t in_features,
                                                                std::vector<Range> held) {
  COLOSSAL_CHECK(held.size() <= 1, "{} runs of inputs", held.size());
  const int64_t begin = held.empty() ? 0 : held.front().begin;
  return {
      .features = in_features,
      .of_a = {.held = {std::move(held)}},
      .dropout =
          [this, begin](const std::string& name, double probability) {
            return std::make_unique<nn::DenseDropout>(full_name(name), probability,
                                                      nn::LocalTokens{.first_feature = begin});
          },
      .layout_change = {.move = [ranks = ranks_](const at::Tensor& z, const StepContext& context) {
        return ranks.end_pair(z, context);
      }}};
}

nn::Placement Tensor1dBuilder::of_first_outputs(const LinearSharding& sharding) const {
  const bool by_keys = sharding.by == LinearSharding::By::keys;
  nn::Placement placement = of_heads(by_keys ? nn::HeadKind::key : nn::HeadKind::query);
  placement.held = {held_here(sharding)};
  return placement;
}

std::pair<ParameterHandle, ParameterHandle> Tensor1dBuilder::first_product(
    const std::string& name, const nn::LinearOptions& options, const LinearSharding& sharding) {
  nn::Placement of_bias = of_first_outputs(sharding);
  nn::Placement of_weight = of_bias;
  of_weight.held = in_order(options.order, all_of(options.in_features), of_bias.held.front());
  return linear_parameters(name, options, std::move(of_weight), std::move(of_bias));
}

nn::Placement Tensor1dBuilder::of_all_heads() const {
  return {.reduction = &context().stage_group()};
}

nn::Placement Tensor1dBuilder::of_heads(nn::HeadKind kind) const {
  if (kind == nn::HeadKind::query || context().strategy().key_value_replicas == 1) return {};
  return {.reduction = &context().along({"dp", "sp", "tp.query"})};
}

std::unique_ptr<nn::Norm> Tensor1dBuilder::make_norm_over_heads(nn::NormParts parts,
                                                                nn::HeadKind kind) {
  const int replicas = kind == nn::HeadKind::key ? context().strategy().key_value_replicas : 1;
  return std::make_unique<SharedNormLayer>(std::move(parts), ranks_.group, replicas);
}

std::unique_ptr<nn::Experts> Tensor1dBuilder::make_experts(nn::ExpertsParts parts,
                                                           const nn::ExpertsOptions& /*options*/) {
  if (ranks_.share_tokens) {
    return std::make_unique<ExpertsOfDividedTokens>(std::move(parts), expert_sharding(),
                                                    ranks_.group);
  }
  return std::make_unique<ExpertsOfReplicatedTokens>(std::move(parts), expert_sharding(),
                                                     ranks_.group);
}

std::vector<Range> Tensor1dBuilder::held_here(const LinearSharding& sharding) const {
  return tower_sharding().held(sharding, ranks_.group.size(), ranks_.group.rank());
}

nn::LocalHeads Tensor1dBuilder::heads_here(int64_t heads, int64_t kv_heads) const {
  return local_heads_of(heads, kv_heads, ranks_.group.size(), ranks_.group.rank());
}

nn::DenseBuilder::AdaptedInput Tensor1dBuilder::latents(int64_t features) {
  return {.features = features,
          .of_a = of_all_heads(),
          .dropout = [this](const std::string& name, double probability) {
            return of_all_tokens(name, probability);
          }};
}

std::unique_ptr<nn::Dropout> Tensor1dBuilder::of_all_tokens(const std::string& name,
                                                            double probability) const {
  return std::make_unique<nn::DenseDropout>(full_name(name), probability);
}

std::unique_ptr<nn::Dropout> Tensor1dBuilder::head_dropout(const std::string& name,
                                                           double probability) {
  return of_all_tokens(name, probability);
}

nn::TokenTable Tensor1dBuilder::head_table(const std::string& name,
                                           const nn::EmbeddingOptions& options) {
  return vocabulary_table(name, options);
}

Range Tensor1dBuilder::head_rows(int64_t vocabulary) const {
  return Partition(vocabulary, ranks_.group.size()).range(ranks_.group.rank());
}

std::unique_ptr<nn::VocabularyHead> Tensor1dBuilder::make_head(nn::VocabularyHeadParts parts) {
  return std::make_unique<VocabularyHead>(std::move(parts), ranks_);
}

}  // namespace colossal::parallel
