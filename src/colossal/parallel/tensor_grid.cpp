#include "colossal/parallel/tensor_grid.h"

#include "colossal/base/error.h"
#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/ops/dropout.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/shared_norm.h"
#include "colossal/parallel/vocabulary.h"

namespace colossal::parallel {
namespace {

using nn::ParameterHandle;
using nn::StepContext;
using Cut = LinearSharding::Cut;

// Of an embedding's tokens those that its ranks share out, and of whom each of those then is.
class GridEmbedding : public nn::Embedding {
 public:
  GridEmbedding(ParameterHandle weight, const TensorGrid& grid)
      : weight_(std::move(weight)), grid_(grid) {}

  at::Tensor forward(const at::Tensor& tokens, const StepContext& context) override {
    nn::LayerScope scope = nn::scope_of(weight_);
    const BatchCut& batch = grid_.between.batch;
    const Range seen = batch.within(context.batch, grid_.embedding_level);
    const std::vector<Range>& rows = weight_->placement.held.front();
    const at::Tensor found = find_rows(weight_.use(scope), rows.empty() ? Range{} : rows.front(),
                                       tokens.narrow(0, seen.begin, seen.size()));
    Shares shares{&grid_.embedding, batch.counts(context.batch, grid_.embedding_level)};
    shares.sizes = shares.times(context.sequence);
    return sum_to_rows(found.flatten(0, 1), shares)
        .view({batch.here(context.batch).size(), context.sequence, found.size(-1)});
  }

 private:
  ParameterHandle weight_;
  const TensorGrid& grid_;
};

class GridPositionEmbedding : public nn::PositionEmbedding {
 public:
  GridPositionEmbedding(ParameterHandle weight, const BatchCut& batch)
      : weight_(std::move(weight)), batch_(batch) {}

  at::Tensor forward(const StepContext& context) override {
    nn::LayerScope scope = nn::scope_of(weight_);
    const at::Tensor rows = at::embedding(weight_.use(scope), context.positions);
    return rows.expand({batch_.here(context.batch).size(), context.sequence, rows.size(-1)});
  }

 private:
  ParameterHandle weight_;
  const BatchCut& batch_;
};

class GridNorm : public nn::Norm {
 public:
  // bias: empty for an RMS norm.
  GridNorm(ParameterHandle weight, ParameterHandle bias, double epsilon,
           const comm::Group& features)
      : weight_(std::move(weight)),
        bias_(std::move(bias)),
        epsilon_(epsilon),
        features_(features) {}

  at::Tensor forward(const at::Tensor& x, const StepContext&) override {
    nn::LayerScope scope = nn::scope_of(weight_);
    return shared_norm(x, weight_.use(scope), bias(scope), epsilon_, weight_->shape[0], features_);
  }

  std::pair<at::Tensor, at::Tensor> add_forward(const at::Tensor& x, const at::Tensor& branch,
                                                const StepContext&) override {
    nn::LayerScope scope = nn::scope_of(weight_);
    return add_shared_norm(x, branch, weight_.use(scope), bias(scope), epsilon_, weight_->shape[0],
                           features_);
  }

 private:
  at::Tensor bias(nn::LayerScope& scope) const { return bias_ ? bias_.use(scope) : at::Tensor(); }

  ParameterHandle weight_, bias_;
  double epsilon_;
  const comm::Group& features_;
};

class GridDropout : public nn::Dropout {
 public:
  GridDropout(std::string stream, double probability, const TensorGrid::Activation& share,
              int64_t features)
      : stream_(std::move(stream)), probability_(probability), share_(share), features_(features) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    if (!context.training || probability_ == 0) return x;
    const nn::LayerScope scope(stream_);
    const StepContext seen = share_.batch.seen_here(context);
    return ops::dropout(
        x, probability_, random_key(context.seed, static_cast<uint64_t>(context.step), stream_),
        seen.sample_ids, seen.positions, Shares::even(share_.features, features_).here().begin);
  }

 private:
  std::string stream_;
  double probability_;
  const TensorGrid::Activation& share_;
  int64_t features_;
};

// Attention of the heads here in the sequences here.
class GridAttention : public nn::Attention {
 public:
  GridAttention(std::unique_ptr<nn::Attention> inner, const BatchCut& batch)
      : inner_(std::move(inner)), batch_(batch) {}

  at::Tensor forward(const at::Tensor& qkv, const StepContext& context) override {
    return inner_->forward(qkv, batch_.seen_here(context));
  }

 private:
  std::unique_ptr<nn::Attention> inner_;
  const BatchCut& batch_;
};

// Each rank has all features of the tokens of `within`, and all of the rows of its part of the
// vocabulary: both are gathered, logits are not. Law: (n-1) times the own part of each, and the
// same backward.
class GridHead : public nn::VocabularyHead {
 public:
  // mirror: where this rank's part of the table is; null: here.
  GridHead(ParameterHandle weight, const TensorGrid& grid, const comm::Group* table_mirror,
           const comm::Group* activation_mirror)
      : weight_(std::move(weight)),
        grid_(grid),
        table_mirror_(table_mirror),
        activation_mirror_(activation_mirror) {}

  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const StepContext& context) override {
    nn::LayerScope scope("vocabulary_head");
    const Range here = grid_.within.batch.here(context.batch);
    const at::Tensor loss = ops::linear_cross_entropy(
        tokens_of(x, context), table(scope), labels.narrow(0, here.begin, here.size()).flatten(),
        vocabulary_shard(vocabulary(), grid_.within.features));
    return sum_forward(loss, grid_.within.tokens);
  }

  at::Tensor logits(const at::Tensor& x, const StepContext& context, bool last_only) override {
    nn::LayerScope scope("vocabulary_head");
    const int64_t here = grid_.within.batch.here(context.batch).size();
    at::Tensor used = tokens_of(x, context).view({here, context.sequence, hidden()});
    if (last_only) used = used.narrow(1, context.sequence - 1, 1);
    const int64_t positions = used.size(1);
    const at::Tensor part = at::linear(used.flatten(0, 1), table(scope));
    const at::Tensor rows = gather_columns(part, Shares::even(grid_.within.features, vocabulary()));
    Shares shares{&grid_.within.tokens, grid_.within.batch.counts(context.batch, 0)};
    shares.sizes = shares.times(positions);
    return gather_rows(rows, shares).view({context.batch, positions, vocabulary()});
  }

 private:
  int64_t vocabulary() const { return weight_->shape[0]; }
  int64_t hidden() const { return weight_->shape[1]; }

  // [tokens of `within`, hidden]
  at::Tensor tokens_of(const at::Tensor& x, const StepContext& context) const {
    at::Tensor rows = x.flatten(0, 1);
    const Shares columns = Shares::even(grid_.within.features, hidden());
    if (activation_mirror_) {
      const int64_t tokens = grid_.within.batch.here(context.batch).size() * context.sequence;
      rows = exchange(rows, {tokens, columns.mine()}, *activation_mirror_);
    }
    return gather_columns(rows, columns);
  }

  // [rows of this rank's part of the vocabulary, hidden]
  at::Tensor table(nn::LayerScope& scope) const {
    at::Tensor rows = weight_.use(scope);
    const int64_t num_rows = Shares::even(grid_.within.features, vocabulary()).mine();
    const Shares columns = Shares::even(grid_.table_features, hidden());
    if (table_mirror_) rows = exchange(rows, {num_rows, columns.mine()}, *table_mirror_);
    if (grid_.table_pieces) rows = gather_rows(rows, Shares::even(*grid_.table_pieces, num_rows));
    return gather_columns(rows, columns);
  }

  ParameterHandle weight_;
  const TensorGrid& grid_;
  const comm::Group* table_mirror_;
  const comm::Group* activation_mirror_;
};

Runs runs_of(int64_t size, int parts, int part) {
  Runs runs;
  append(runs, Partition(size, parts).range(part));
  return runs;
}

// What of a weight cut into these inputs and outputs is here, as it is stored.
std::vector<Runs> held_of_block(Runs inputs, Runs outputs, nn::WeightOrder order,
                                const TensorGrid::Block& block) {
  std::vector<Runs> held{std::move(outputs), std::move(inputs)};
  if (order == nn::WeightOrder::in_out) std::swap(held[0], held[1]);
  held[0] = indices_at(held[0], Partition(num_indices(held[0]), block.pieces).range(block.piece));
  return held;
}

}  // namespace

TensorGridBuilder::TensorGridBuilder(const ParallelContext& context, TensorGrid grid,
                                     Sharding sharding, nn::MakeAttention make_attention)
    : DenseBuilder(std::move(make_attention)),
      context_(context),
      grid_(std::move(grid)),
      sharding_(std::move(sharding)) {
  check_key_value_replicas(context.strategy(), sharding_);
}

Range TensorGridBuilder::features_here(int64_t features) const {
  return Shares::even(grid_.between.features, features).here();
}

nn::Placement TensorGridBuilder::of_features(int64_t features) const {
  nn::Placement placement{.reduction = grid_.between.same_features};
  append(placement.held.emplace_back(), features_here(features));
  return placement;
}

ParameterHandle TensorGridBuilder::table(const std::string& name,
                                         const nn::EmbeddingOptions& options,
                                         const TensorGrid::Block& block, nn::WeightOrder order) {
  const bool in_out = order == nn::WeightOrder::in_out;  // [vocabulary, features]
  const int64_t inputs = in_out ? options.vocabulary : options.features;
  const int64_t outputs = in_out ? options.features : options.vocabulary;
  return parameter(name, "weight", {options.vocabulary, options.features}, options.initializer,
                   {.held = held_of_block(runs_of(inputs, side(), block.inputs),
                                          runs_of(outputs, side(), block.outputs), order, block),
                    .reduction = grid_.same_weight});
}

std::unique_ptr<nn::Embedding> TensorGridBuilder::embedding(const std::string& name,
                                                            const nn::EmbeddingOptions& options) {
  return std::make_unique<GridEmbedding>(
      table(name, options, grid_.second, nn::WeightOrder::in_out), grid_);
}

std::unique_ptr<nn::PositionEmbedding> TensorGridBuilder::position_embedding(
    const std::string& name, const nn::EmbeddingOptions& options) {
  nn::Placement placement = of_features(options.features);
  placement.held.insert(placement.held.begin(), {{0, options.vocabulary}});
  return std::make_unique<GridPositionEmbedding>(
      parameter(name, "weight", {options.vocabulary, options.features}, options.initializer,
                std::move(placement)),
      grid_.between.batch);
}

std::unique_ptr<nn::Norm> TensorGridBuilder::rms_norm(const std::string& name,
                                                      const nn::NormOptions& options) {
  auto weight = parameter(name, "weight", {options.features}, nn::Initializer::ones(),
                          of_features(options.features));
  return std::make_unique<GridNorm>(weight, ParameterHandle(), options.epsilon,
                                    grid_.between.features);
}

std::unique_ptr<nn::Norm> TensorGridBuilder::layer_norm(const std::string& name,
                                                        const nn::NormOptions& options) {
  auto weight = parameter(name, "weight", {options.features}, nn::Initializer::ones(),
                          of_features(options.features));
  auto bias = parameter(name, "bias", {options.features}, nn::Initializer::zeros(),
                        of_features(options.features));
  return std::make_unique<GridNorm>(weight, bias, options.epsilon, grid_.between.features);
}

std::unique_ptr<nn::Dropout> TensorGridBuilder::dropout(const std::string& name,
                                                        double probability) {
  return std::make_unique<GridDropout>(full_name(name), probability, grid_.between,
                                       sharding_.hidden_size);
}

std::unique_ptr<nn::Attention> TensorGridBuilder::attention(const std::string& name,
                                                            const nn::AttentionOptions& options) {
  return std::make_unique<GridAttention>(
      attention_of_heads(name, options, sharding_.heads_of(side(), grid_.within.features.rank())),
      grid_.within.batch);
}

void TensorGridBuilder::add(GridProduct& product, const std::string& name,
                            const nn::LinearOptions& options, const LinearSharding& sharding) {
  const bool is_first = sharding.cut == Cut::outputs;
  const bool makes_keys = sharding.by == LinearSharding::By::keys;
  const TensorGrid::Block& block = is_first ? grid_.first : grid_.second;
  const TensorGrid::Activation& result = is_first ? grid_.within : grid_.between;
  const auto inputs = [&](int part) {
    return is_first ? runs_of(options.in_features, side(), part)
                    : sharding_.held(sharding, side(), part);
  };
  const Runs outputs = is_first ? sharding_.held(sharding, side(), block.outputs)
                                : runs_of(options.out_features, side(), block.outputs);
  auto [weight, bias] = linear_parameters(
      name, options,
      {.held = held_of_block(inputs(block.inputs), outputs, options.order, block),
       .reduction = makes_keys ? grid_.same_key_weight : grid_.same_weight},
      {.held = {outputs}, .reduction = makes_keys ? result.same_keys : result.same_features});
  product.cut = sharding.cut;
  product.order = options.order;
  product.weights.push_back(weight);
  if (bias) product.biases.push_back(bias);
  product.block_rows.push_back(
      num_indices(options.order == nn::WeightOrder::out_in ? outputs : inputs(block.inputs)));
  product.in_sizes.clear();
  for (int part = 0; part < side(); ++part) product.in_sizes.push_back(num_indices(inputs(part)));
}

std::unique_ptr<nn::Linear> TensorGridBuilder::linear(const std::string& name,
                                                      const nn::LinearOptions& options) {
  const auto found = sharding_.products.find(name);
  COLOSSAL_CHECK(found != sharding_.products.end(), "{}: a product that is in no pair", name);
  GridProduct product;
  add(product, name, options, found->second);
  return make_product(std::move(product));
}

std::unique_ptr<nn::Linear> TensorGridBuilder::fused_linear(const nn::FusedLinearOptions& options) {
  GridProduct product;
  for (const nn::FusedLinearOptions::Part& part : options.parts) {
    const auto found = sharding_.products.find(part.name);
    COLOSSAL_CHECK(found != sharding_.products.end() && found->second.cut == Cut::outputs,
                   "{}: a product side by side with others, and no cut of its outputs", part.name);
    add(product, part.name, nn::part_of(options, part), found->second);
  }
  return make_product(std::move(product));
}

std::unique_ptr<nn::VocabularyHead> TensorGridBuilder::vocabulary_head(
    const std::string& name, const nn::EmbeddingOptions& options) {
  return make_head(table(name, options, grid_.first, nn::WeightOrder::out_in), false);
}

std::unique_ptr<nn::VocabularyHead> TensorGridBuilder::make_head(nn::TokenTable table) {
  return make_head(table.whole(), grid_.mirror_tied_table);
}

std::unique_ptr<nn::VocabularyHead> TensorGridBuilder::make_head(ParameterHandle weight,
                                                                 bool mirror_table) {
  const comm::Group* mirror = &context_.mirror_group();
  return std::make_unique<GridHead>(std::move(weight), grid_, mirror_table ? mirror : nullptr,
                                    grid_.mirror_activation ? mirror : nullptr);
}

}  // namespace colossal::parallel
