#include "colossal/parallel/tensor/tensor_grid.h"

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/layout/heads.h"
#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"
#include "colossal/nn/dense_layers.h"
#include "colossal/nn/key_value_store.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/nn/product.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/tensor/shared_norm.h"
#include "colossal/parallel/tensor/tensor_grid_head.h"
#include "colossal/parallel/tensor/vocabulary.h"

namespace colossal::parallel {
namespace {

using nn::ParameterHandle;
using nn::StepContext;
using Cut = LinearSharding::Cut;

// Looks up the tokens of all ranks of grid.embedding in this rank's rows of the vocabulary. A
// reduce-scatter sums the results and leaves each rank its own tokens.
class GridEmbedding : public nn::Embedding {
 public:
  // features: of this rank.
  GridEmbedding(nn::TokenTable table, nn::EmbeddingAdapter adapter, Range features,
                const TensorGrid& grid)
      : table_(std::move(table)), adapter_(std::move(adapter)), features_(features), grid_(grid) {}

  at::Tensor forward(const at::Tensor& tokens, const StepContext& context) override {
    const BatchCut& batch = grid_.between.batch;
    const Range seen = batch.within(context.tokens().batch, grid_.embedding_level);
    const at::Tensor of_these = tokens.narrow(0, seen.begin, seen.size());
    StepContext of_seen = context;
    of_seen.services.adapted_rows = nn::rows_within(
        context.services.adapted_rows,
        {seen.begin * context.tokens().sequence, seen.end * context.tokens().sequence});
    const at::Tensor found =
        adapter_.add(look_up(of_these), of_these, table_.rows_here(), features_, of_seen);
    Shares shares{&grid_.embedding, batch.counts(context.tokens().batch, grid_.embedding_level)};
    shares.sizes = shares.times(context.tokens().sequence);
    return reduce_scatter_rows(found.flatten(0, 1), shares)
        .view(
            {batch.here(context.tokens().batch).size(), context.tokens().sequence, found.size(-1)});
  }

 private:
  at::Tensor look_up(const at::Tensor& tokens) const {
    if (table_.is_cut()) return ops::look_up(table_.blocks(), tokens);
    const ParameterHandle& weight = table_.whole();
    nn::LayerScope scope = nn::scope_of(weight);
    return look_up_rows(weight.use(scope), nn::rows_here(*weight), tokens);
  }

  nn::TokenTable table_;
  nn::EmbeddingAdapter adapter_;
  Range features_;
  const TensorGrid& grid_;
};

std::function<StepContext(const StepContext&)> of_sequences(const BatchCut& batch) {
  return [&batch](const StepContext& context) { return batch.local_context(context); };
}

nn::LowRankAdapter::Tokens tokens_here(const TensorGrid::Activation& activation) {
  return [&batch = activation.batch](const StepContext& context) {
    const Range here = batch.here(context.tokens().batch);
    return Range{here.begin * context.tokens().sequence, here.end * context.tokens().sequence};
  };
}

// For a step of generation, in which each sequence is one token. Each rank keeps the keys and
// values of its heads for all tokens. So it gathers queries, keys and values from the ranks that
// hold the other tokens, attends with all queries and returns the results of its own tokens. Law:
// (n-1) times the own queries, keys and values.
class KeyValuesOfAllTokens : public nn::KeyValueStore {
 public:
  KeyValuesOfAllTokens(nn::KeyValueStore& kept, Shares tokens)
      : kept_(kept), tokens_(std::move(tokens)) {}

  at::Tensor attend(
      int64_t layer, const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
      const ops::AttentionOptions& options,
      const std::vector<nn::RowsWithVirtualTokens>& rows_with_virtual_tokens) override {
    COLOSSAL_CHECK(queries.size(2) == 1, "sequences of {} tokens with kept keys and values",
                   queries.size(2));
    // Gathers [tokens of this rank, heads * size] of all three at once, then splits: [1, heads,
    // tokens, size] each.
    std::vector<at::Tensor> here, parts;
    std::vector<int64_t> features;
    for (const at::Tensor& part : {queries, keys, values}) {
      here.push_back(part.squeeze(2).flatten(1));
      features.push_back(here.back().size(1));
    }
    const at::Tensor all = gather_rows(at::cat(here, 1), tokens_);
    const std::vector<at::Tensor> of_all = all.split_with_sizes(features, 1);
    for (size_t i = 0; i < of_all.size(); ++i) {
      const at::Tensor& like = i == 0 ? queries : i == 1 ? keys : values;
      parts.push_back(
          of_all[i].unflatten(1, {like.size(1), like.size(3)}).transpose(0, 1).unsqueeze(0));
    }
    const at::Tensor seen =
        kept_.attend(layer, parts[0], parts[1], parts[2], options, rows_with_virtual_tokens);
    const Range mine = tokens_.here();
    return seen.squeeze(0).transpose(0, 1).narrow(0, mine.begin, mine.size()).unsqueeze(2);
  }

 private:
  nn::KeyValueStore& kept_;
  Shares tokens_;
};

// Attention over this rank's heads and sequences.
class GridAttention : public nn::Attention {
 public:
  GridAttention(std::unique_ptr<nn::Attention> inner, const TensorGrid::Activation& activation)
      : inner_(std::move(inner)), activation_(activation) {}

  at::Tensor forward(const at::Tensor& qkv, const at::Tensor& relative_bias,
                     const StepContext& context) override {
    StepContext seen = activation_.batch.local_context(context);
    if (!context.services.key_values) return inner_->forward(qkv, relative_bias, seen);
    KeyValuesOfAllTokens kept(*context.services.key_values, activation_.tokens_of_ranks(context));
    seen.services.key_values = &kept;
    return inner_->forward(qkv, relative_bias, seen);
  }

 private:
  std::unique_ptr<nn::Attention> inner_;
  const TensorGrid::Activation& activation_;
};

class GridCrossAttention : public nn::CrossAttention {
 public:
  GridCrossAttention(std::unique_ptr<nn::CrossAttention> inner, const BatchCut& batch)
      : inner_(std::move(inner)), batch_(batch) {}

  at::Tensor forward(const at::Tensor& query, const at::Tensor& key_value,
                     const StepContext& context) override {
    return inner_->forward(query, key_value, batch_.local_context(context));
  }
  at::Tensor forward_stored(const at::Tensor&, const StepContext&) override {
    COLOSSAL_CHECK(false, "cross-attention of stored memories over ranks that divide sequences");
  }

 private:
  std::unique_ptr<nn::CrossAttention> inner_;
  const BatchCut& batch_;
};

// A linear layer between pairs with few outputs. Every rank that holds features of a token gets all
// outputs for the token.
class LinearOfAllOutputs : public nn::Linear {
 public:
  // of_features: the layer over this rank's features.
  LinearOfAllOutputs(std::unique_ptr<nn::Linear> of_features, const comm::Group& features)
      : of_features_(std::move(of_features)), features_(features) {}

  // Each rank uses the sum for its own features, so the gradient of the sum is summed over the
  // ranks too.
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    const at::Tensor part = of_features_->forward(x, context);
    if (part.numel() == 0) return part;
    return copy_to_tensor_parallel(reduce_from_tensor_parallel(part, features_), features_);
  }

 private:
  std::unique_ptr<nn::Linear> of_features_;
  const comm::Group& features_;
};

// A linear layer between pairs whose output is divided like its input.
class LinearOfHidden : public nn::Linear {
 public:
  // of_features: the layer over this rank's input features, without bias. bias: this rank's part;
  // empty handle: there is none. outputs: of each rank that holds features of the same tokens.
  LinearOfHidden(std::unique_ptr<nn::Linear> of_features, ParameterHandle bias, Shares outputs)
      : of_features_(std::move(of_features)),
        bias_(std::move(bias)),
        outputs_(std::move(outputs)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    const at::Tensor part = of_features_->forward(x, context);
    const std::vector<int64_t> sizes{part.size(0), part.size(1), outputs_.mine()};
    const at::Tensor y = part.numel() == 0
                             ? part.narrow(-1, 0, outputs_.mine())
                             : sum_to_columns(part.flatten(0, 1), outputs_).view(sizes);
    // Ranks without tokens use the bias too: the others wait for its gradient.
    if (!bias_) return y;
    nn::LayerScope scope = nn::scope_of(bias_);
    return y + bias_.use(scope);
  }

 private:
  std::unique_ptr<nn::Linear> of_features_;
  ParameterHandle bias_;
  Shares outputs_;
};

Runs runs_of(int64_t size, int parts, int part) {
  Runs runs;
  append(runs, Partition(size, parts).range(part));
  return runs;
}

// Returns the indices of a weight that a rank holds, for each stored dim. inputs, outputs: of the
// rank's block. A piece is a part of the block's stored rows.
std::vector<Runs> held_of_block(Runs inputs, Runs outputs, nn::WeightOrder order,
                                const TensorGrid::Block& block) {
  std::vector<Runs> held{std::move(outputs), std::move(inputs)};
  if (order == nn::WeightOrder::in_out) std::swap(held[0], held[1]);
  held[0] = indices_at(held[0], Partition(num_indices(held[0]), block.pieces).range(block.piece));
  return held;
}

}  // namespace

Shares TensorGrid::Activation::tokens_of_ranks(const StepContext& context) const {
  Shares shares{&tokens, batch.counts(context.tokens().batch, 0)};
  shares.sizes = shares.times(context.tokens().sequence);
  return shares;
}

TensorGridBuilder::TensorGridBuilder(const ParallelContext& context, TensorGrid grid,
                                     Shardings shardings, nn::MakeAttention make_attention,
                                     int64_t table_rows)
    : ExpertBuilder(context, std::move(make_attention), table_rows),
      grid_(std::move(grid)),
      shardings_(std::move(shardings)) {
  check_key_value_replicas(context.strategy(), shardings_);
}

nn::Placement TensorGridBuilder::of_features(int64_t features) const {
  nn::Placement placement{.reduction = grid_.between.same_features};
  append(placement.held.emplace_back(), Shares::even(grid_.between.features, features).here());
  return placement;
}

nn::TokenPart TensorGridBuilder::token_part() const {
  return [&batch = grid_.between.batch](const at::Tensor& tokens, const StepContext& context) {
    const Range here = batch.here(context.tokens().batch);
    return tokens.narrow(0, here.begin, here.size());
  };
}

nn::LocalTokens TensorGridBuilder::local_tokens() const {
  return {.context = of_sequences(grid_.between.batch),
          .first_feature =
              Shares::even(grid_.between.features, tower_sharding().hidden_size).here().begin};
}

nn::SumOfParts TensorGridBuilder::sum_of_parts() const {
  return [&group = context().group(Axis::tp)](const at::Tensor& part) {
    return reduce_from_tensor_parallel(part, group);
  };
}

std::vector<Range> TensorGridBuilder::rows_of_pieces(int64_t vocabulary) const {
  std::vector<Range> rows;
  for (int part = 0; part < side(); ++part) {
    const Range whole = Partition(vocabulary, side()).range(part);
    const Partition pieces(whole.size(), grid_.first.pieces);
    for (int piece = 0; piece < grid_.first.pieces; ++piece) {
      const Range here = pieces.range(piece);
      rows.push_back({whole.begin + here.begin, whole.begin + here.end});
    }
  }
  return rows;
}

nn::TokenTable TensorGridBuilder::table(const std::string& name,
                                        const nn::EmbeddingOptions& options, int part, int piece,
                                        int features) {
  return token_table(
      name, options, rows_of_pieces(options.vocabulary),
      static_cast<size_t>(part * grid_.first.pieces + piece),
      {.held = {runs_of(options.features, side(), features)}, .reduction = grid_.same_weight});
}

std::unique_ptr<nn::Embedding> TensorGridBuilder::embedding(const std::string& name,
                                                            const nn::EmbeddingOptions& options) {
  const TensorGrid::Block& block = grid_.second;
  nn::TokenTable rows = table(name, options, block.inputs, block.piece, block.outputs);
  return std::make_unique<GridEmbedding>(std::move(rows), embedding_adapter(name, options),
                                         Partition(options.features, side()).range(block.outputs),
                                         grid_);
}

std::unique_ptr<nn::Norm> TensorGridBuilder::make_norm(nn::NormParts parts) {
  return std::make_unique<SharedNormLayer>(std::move(parts), grid_.between.features);
}

nn::Placement TensorGridBuilder::of_all_heads() const {
  return {.reduction = &context().stage_group()};
}

nn::Placement TensorGridBuilder::of_heads(nn::HeadKind kind) const {
  const bool of_keys = kind == nn::HeadKind::key;
  return {.reduction = of_keys ? grid_.within.same_keys : grid_.within.same_features};
}

std::unique_ptr<nn::Norm> TensorGridBuilder::make_norm_over_heads(nn::NormParts parts,
                                                                  nn::HeadKind kind) {
  const int replicas = kind == nn::HeadKind::key ? context().strategy().key_value_replicas : 1;
  return std::make_unique<SharedNormLayer>(std::move(parts), grid_.within.features, replicas);
}

std::unique_ptr<nn::Attention> TensorGridBuilder::attention(const std::string& name,
                                                            const nn::AttentionOptions& options) {
  return std::make_unique<GridAttention>(DenseBuilder::attention(name, options), grid_.within);
}

std::unique_ptr<nn::CrossAttention> TensorGridBuilder::cross_attention(
    const std::string& name, const nn::AttentionOptions& options) {
  return std::make_unique<GridCrossAttention>(DenseBuilder::cross_attention(name, options),
                                              grid_.within.batch);
}

nn::DenseBuilder::AdaptedProduct TensorGridBuilder::add(GridProduct& product,
                                                        const std::string& name,
                                                        const nn::LinearOptions& options,
                                                        const LinearSharding& sharding) {
  const bool is_first = sharding.cut == Cut::outputs;
  const bool makes_keys = sharding.by == LinearSharding::By::keys;
  const TensorGrid::Block& block = is_first ? grid_.first : grid_.second;
  const TensorGrid::Activation& result = is_first ? grid_.within : grid_.between;
  const auto inputs = [&](int part) {
    return is_first ? runs_of(options.in_features, side(), part)
                    : tower_sharding().held(sharding, side(), part);
  };
  const Runs outputs = is_first ? tower_sharding().held(sharding, side(), block.outputs)
                                : runs_of(options.out_features, side(), block.outputs);
  const nn::Placement of_outputs{.held = {outputs},
                                 .reduction = makes_keys ? result.same_keys : result.same_features};
  auto [weight, bias] =
      linear_parameters(name, options,
                        {.held = held_of_block(inputs(block.inputs), outputs, options.order, block),
                         .reduction = makes_keys ? grid_.same_key_weight : grid_.same_weight},
                        of_outputs);
  product.cut = sharding.cut;
  product.order = options.order;
  product.weights.push_back(weight);
  if (bias) product.biases.push_back(bias);
  product.block_rows.push_back(
      num_indices(options.order == nn::WeightOrder::out_in ? outputs : inputs(block.inputs)));
  if (weight->packed) {
    product.packed.layouts.resize(static_cast<size_t>(side()));
    for (int part = 0; part < side(); ++part) {
      TensorGrid::Block there = block;
      (block.pieces > 1 ? there.piece : there.inputs) = part;
      product.packed.layouts[static_cast<size_t>(part)].push_back(
          std::make_shared<const ops::PackedLayout>(nn::packed_layout(
              weight->packed->type(), weight->shape,
              held_of_block(inputs(there.inputs), outputs, options.order, there), options.order)));
    }
  }
  product.in_sizes.clear();
  for (int part = 0; part < side(); ++part) product.in_sizes.push_back(num_indices(inputs(part)));
  return {name, options.out_features, of_outputs, weight};
}

// Each rank multiplies its features of x by the same features of A. The sum over the ranks, which
// has few features, goes to all ranks that hold results of the same tokens.
nn::DenseBuilder::AdaptedInput TensorGridBuilder::adapted_input(int64_t in_features,
                                                                const LinearSharding& sharding) {
  const bool is_first = sharding.cut == Cut::outputs;
  const TensorGrid::Activation &from = is_first ? grid_.between : grid_.within,
                               &to = is_first ? grid_.within : grid_.between;
  const Runs held = is_first ? runs_of(in_features, side(), from.features.rank())
                             : tower_sharding().held(sharding, side(), from.features.rank());
  COLOSSAL_CHECK(held.size() <= 1, "{} runs of inputs", held.size());
  const int64_t begin = held.empty() ? 0 : held.front().begin;
  const comm::Group* mirror = grid_.mirror_activation ? &context().transpose_group() : nullptr;
  return {.features = in_features,
          .of_a = {.held = {held}, .reduction = from.same_features},
          .dropout =
              [this, &from, begin](const std::string& name, double probability) {
                return std::make_unique<nn::DenseDropout>(
                    full_name(name), probability,
                    nn::LocalTokens{.context = of_sequences(from.batch), .first_feature = begin});
              },
          .layout_change = {
              .move =
                  [&from, &to, mirror](const at::Tensor& part, const StepContext& context) {
                    at::Tensor z =
                        part.numel() > 0 ? reduce_from_tensor_parallel(part, from.features) : part;
                    if (mirror) {
                      z = exchange(z,
                                   {to.batch.here(context.tokens().batch).size(),
                                    context.tokens().sequence, part.size(-1)},
                                   *mirror);
                    }
                    return z.numel() > 0 ? copy_to_tensor_parallel(z, to.features) : z;
                  },
              .of_x = tokens_here(from),
              .of_y = tokens_here(to)}};
}

nn::LocalHeads TensorGridBuilder::heads_here(int64_t heads, int64_t kv_heads) const {
  return local_heads_of(heads, kv_heads, side(), grid_.within.features.rank());
}

nn::DenseBuilder::AdaptedInput TensorGridBuilder::latents(int64_t features) {
  return {.features = features,
          .of_a = of_all_heads(),
          .dropout = [this](const std::string& name,
                            double probability) { return head_dropout(name, probability); },
          .layout_change = nn::LowRankAdapter::LayoutChange::here(tokens_here(grid_.within))};
}

nn::Placement TensorGridBuilder::of_head_outputs(const std::string& name) const {
  return {.held = {tower_sharding().held(tower_sharding().products.at(name), side(),
                                         grid_.first.outputs)},
          .reduction = grid_.within.same_features};
}

std::unique_ptr<nn::Experts> TensorGridBuilder::make_experts(nn::ExpertsParts parts,
                                                             const nn::ExpertsOptions& options) {
  return std::make_unique<ExpertsOfDividedFeatures>(std::move(parts), expert_sharding(),
                                                    grid_.between.features, grid_.between.batch,
                                                    options.hidden);
}

std::unique_ptr<nn::Linear> TensorGridBuilder::linear(const std::string& name,
                                                      const nn::LinearOptions& options) {
  const auto found = tower_sharding().products.find(name);
  if (found == tower_sharding().products.end()) return linear_of_all_outputs(name, options);
  GridProduct product;
  const AdaptedProduct adapted = add(product, name, options, found->second);
  const AdaptedInput input = adapted_input(options.in_features, found->second);
  product.adapter = adapter({adapted}, input);
  return with_input_dropout(name, options, input, make_product(std::move(product)));
}

std::pair<std::unique_ptr<nn::Linear>, ParameterHandle> TensorGridBuilder::linear_over_features(
    const std::string& name, const nn::LinearOptions& options) {
  COLOSSAL_CHECK(options.order == nn::WeightOrder::out_in,
                 "{}: a product in no pair, stored [in, out]", name);
  AdaptedInput input = adapted_input(options.in_features, {.cut = Cut::outputs});
  nn::Placement of_weight = input.of_a;
  of_weight.held.insert(of_weight.held.begin(), {{0, options.out_features}});
  auto [weight, bias] =
      linear_parameters(name, options, std::move(of_weight), of_features(options.out_features));
  input.layout_change = nn::LowRankAdapter::LayoutChange::here(tokens_here(grid_.between));
  return {std::make_unique<nn::DenseLinear>(
              weight, ParameterHandle(), options.order,
              adapter({{name, options.out_features, of_latent_adapter_b(), weight}}, input)),
          bias};
}

std::unique_ptr<nn::Linear> TensorGridBuilder::linear_of_all_outputs(
    const std::string& name, const nn::LinearOptions& options) {
  COLOSSAL_CHECK(!options.bias, "{}: a product in no pair, with a bias", name);
  return std::make_unique<LinearOfAllOutputs>(linear_over_features(name, options).first,
                                              grid_.between.features);
}

std::unique_ptr<nn::Linear> TensorGridBuilder::hidden_linear(const std::string& name,
                                                             const nn::LinearOptions& options) {
  auto [of_features, bias] = linear_over_features(name, options);
  return std::make_unique<LinearOfHidden>(
      std::move(of_features), bias, Shares::even(grid_.between.features, options.out_features));
}

std::unique_ptr<nn::Linear> TensorGridBuilder::fused_linear(const nn::FusedLinearOptions& options) {
  GridProduct product;
  std::vector<AdaptedProduct> adapted;
  for (const nn::FusedLinearOptions::Part& part : options.parts) {
    const auto found = tower_sharding().products.find(part.name);
    COLOSSAL_CHECK(found != tower_sharding().products.end() && found->second.cut == Cut::outputs,
                   "{}: a product side by side with others, and no cut of its outputs", part.name);
    adapted.push_back(add(product, part.name, nn::part_of(options, part), found->second));
  }
  product.adapter = adapter(
      adapted,
      adapted_input(options.in_features, tower_sharding().products.at(options.parts.front().name)));
  return make_product(std::move(product));
}

std::unique_ptr<nn::Dropout> TensorGridBuilder::head_dropout(const std::string& name,
                                                             double probability) {
  return std::make_unique<nn::DenseDropout>(
      full_name(name), probability, nn::LocalTokens{.context = of_sequences(grid_.within.batch)});
}

nn::TokenTable TensorGridBuilder::head_table(const std::string& name,
                                             const nn::EmbeddingOptions& options) {
  const TensorGrid::Block& block = grid_.first;
  return table(name, options, block.outputs, block.piece, block.inputs);
}

Range TensorGridBuilder::head_rows(int64_t vocabulary) const {
  return Partition(vocabulary, side()).range(grid_.within.features.rank());
}

nn::Placement TensorGridBuilder::of_head_bias(int64_t) const {
  return {.reduction = grid_.within.same_features};
}

std::unique_ptr<nn::VocabularyHead> TensorGridBuilder::make_head(nn::VocabularyHeadParts parts) {
  return make_head(std::move(parts), false);
}

std::unique_ptr<nn::VocabularyHead> TensorGridBuilder::make_tied_head(
    nn::VocabularyHeadParts parts) {
  return make_head(std::move(parts), grid_.mirror_tied_table);
}

std::unique_ptr<nn::VocabularyHead> TensorGridBuilder::make_head(nn::VocabularyHeadParts parts,
                                                                 bool mirror_table) {
  const comm::Group* mirror = &context().transpose_group();
  const std::vector<std::vector<Range>> blocks =
      blocks_of(rows_of_pieces(parts.table.vocabulary()));
  const auto first = blocks.begin() + grid_.within.features.rank() * grid_.first.pieces;
  return make_grid_head(std::move(parts), {first, first + grid_.first.pieces},
                        tower_sharding().hidden_size, grid_,
                        {.table = mirror_table ? mirror : nullptr,
                         .activation = grid_.mirror_activation ? mirror : nullptr});
}

}  // namespace colossal::parallel
