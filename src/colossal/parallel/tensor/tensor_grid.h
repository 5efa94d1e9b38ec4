// The common base of tensor parallelism in modes 2d, 2.5d and 3d. A rank holds a part of each
// activation, with some sequences of the micro-batch and some features: [sequences on this rank,
// sequence, features on this rank]. It holds a block of each weight: some inputs and some outputs.
// Linear layers come in pairs (sharding.h). In an MLP or an attention block, the first layer of the
// pair leads from the hidden features to the inner features or heads, and the second layer leads
// back. The modes differ in which rank holds which part (TensorGrid) and in how they compute a
// product (make_product()). tensor_2d.h and tensor_3d.h define them. Below, q is
// Strategy::tensor_side(), the number of ranks along a side of the square or cube.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/expert/sharded_experts.h"
#include "colossal/parallel/sharding.h"
#include "colossal/parallel/tensor/batch_cut.h"
#include "colossal/parallel/tensor/panel_product.h"

namespace colossal::parallel {

// Which parts of activations and weights this rank holds, and the groups that communicate. All
// groups must outlive the layers.
struct TensorGrid {
  // The layout of an activation.
  struct Activation {
    BatchCut batch;               // the sequences on this rank
    const comm::Group& features;  // ranks with other features of the same tokens, in feature order
    const comm::Group& tokens;    // ranks with the same features of other tokens, in token order
    // The ranks over which gradients of parameters with one value per feature (biases, norm
    // weights) are summed: those of `tokens`, and the ranks of dp and sp with the same features.
    const comm::Group* same_features;
    // Like same_features, for features that are keys or values. The group may have more ranks,
    // because several ranks may hold the same K/V heads.
    const comm::Group* same_keys;

    // Returns how many tokens of the step each rank along `tokens` holds.
    Shares tokens_of_ranks(const nn::StepContext& context) const;
  };
  Activation between;  // of the hidden features, outside of pairs of linear layers
  Activation within;   // between the two layers of a pair

  // This rank's part of a weight. Inputs and outputs are each divided into q parts, which gives q x
  // q blocks. In 3d, the rows of a block as it is stored (outputs of a weight [out, in], inputs
  // of a weight [in, out]) are divided further into pieces.
  struct Block {
    int inputs = 0;   // index of the part of the inputs on this rank
    int outputs = 0;  // index of the part of the outputs on this rank
    int pieces = 1;   // number of pieces of a block
    int piece = 0;    // index of the piece on this rank
  };
  Block first;   // of the first layer of a pair, and of a vocabulary head
  Block second;  // of the second layer of a pair, and of an embedding (inputs: vocabulary rows)
  const comm::Group* same_weight;      // the ranks over which weight gradients are summed
  const comm::Group* same_key_weight;  // like same_weight, for weights that compute keys and values

  // For the token embedding. between.batch divides the micro-batch level by level: each level
  // divides the parts of the level before. The ranks of `embedding` share one of the parts after
  // embedding_level levels (0: the whole micro-batch): together they have its sequences. Each of
  // them looks up the tokens of the whole part in its own rows of the table. A reduce-scatter over
  // `embedding` then sums the results and leaves each rank its own sequences.
  const comm::Group& embedding;
  size_t embedding_level = 0;

  // For the vocabulary head, which gathers its part of the table: the pieces of its rows over
  // table_pieces (null if blocks have no pieces), and the features over table_features.
  const comm::Group* table_pieces = nullptr;
  const comm::Group& table_features;
  // What this rank swaps with the other rank of ParallelContext::transpose_group(); nothing if that
  // group is this rank alone. mirror_tied_table: the vocabulary head swaps its part of the table
  // before each use, if the table is tied to the embedding. mirror_activation: the vocabulary head
  // swaps its input activation, and an adapter swaps the result of its first matrix.
  bool mirror_tied_table = false;
  bool mirror_activation = false;
};

// The parts of a linear layer with one or several weights whose outputs are concatenated.
struct GridProduct {
  LinearSharding::Cut cut;                   // outputs: first layer of a pair; inputs: second layer
  std::vector<nn::ParameterHandle> weights;  // this rank's blocks or pieces of blocks
  std::vector<nn::ParameterHandle> biases;   // one per weight, or empty
  nn::WeightOrder order;                     // of the weights' dims
  std::vector<int64_t> in_sizes;             // number of inputs in each of the q parts
  std::vector<int64_t> block_rows;  // for each weight: stored rows of a whole block, all pieces
  // If the weights are packed: the layouts of the weights on each of q ranks, this rank included.
  // In 3d, rank number i of these has piece i of this rank's block. In 2d and 2.5d, it has part i
  // of the inputs and the same outputs as this rank.
  PackedPanels packed;
  nn::LowRankAdapter adapter;
};

// The builder of all layers but linear layers in pairs, which derived classes make. For the
// functions that are overridden here without a comment, see nn::DenseBuilder.
class TensorGridBuilder : public ExpertBuilder {
 public:
  // shardings: which layers are in pairs, and the sizes that ranks divide. make_attention: makes
  // the attention over this rank's heads and sequences. table_rows: maximum number of rows of one
  // parameter of a vocabulary table; 0: no maximum. `context` must outlive the builder and its
  // layers.
  TensorGridBuilder(const ParallelContext& context, TensorGrid grid, Shardings shardings,
                    nn::MakeAttention make_attention, int64_t table_rows);

  std::unique_ptr<nn::Embedding> embedding(const std::string& name,
                                           const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::Linear> linear(const std::string& name,
                                     const nn::LinearOptions& options) override;
  std::unique_ptr<nn::Linear> fused_linear(const nn::FusedLinearOptions& options) override;
  std::unique_ptr<nn::Linear> hidden_linear(const std::string& name,
                                            const nn::LinearOptions& options) override;
  std::unique_ptr<nn::Attention> attention(const std::string& name,
                                           const nn::AttentionOptions& options) override;
  std::unique_ptr<nn::CrossAttention> cross_attention(const std::string& name,
                                                      const nn::AttentionOptions& options) override;
  nn::Placement of_features(int64_t features) const override;
  nn::TokenPart token_part() const override;
  nn::LocalTokens local_tokens() const override;
  nn::SumOfParts sum_of_parts() const override;

 protected:
  // Makes a linear layer of a pair.
  virtual std::unique_ptr<nn::Linear> make_product(GridProduct product) = 0;
  std::unique_ptr<nn::Norm> make_norm(nn::NormParts parts) override;
  nn::Placement of_all_heads() const override;
  nn::Placement of_heads(nn::HeadKind kind) const override;
  nn::LocalHeads heads_here(int64_t heads, int64_t kv_heads) const override;
  AdaptedInput input_of_latents(int64_t hidden) override {
    return adapted_input(hidden, {.cut = LinearSharding::Cut::outputs});
  }
  nn::Placement of_latent_adapter_b() const override { return of_all_heads(); }
  AdaptedInput latents(int64_t features) override;
  nn::Placement of_head_outputs(const std::string& name) const override;
  std::unique_ptr<nn::Norm> make_norm_over_heads(nn::NormParts parts, nn::HeadKind kind) override;
  std::unique_ptr<nn::Experts> make_experts(nn::ExpertsParts parts,
                                            const nn::ExpertsOptions& options) override;
  std::unique_ptr<nn::Dropout> head_dropout(const std::string& name, double probability) override;
  nn::TokenTable head_table(const std::string& name, const nn::EmbeddingOptions& options) override;
  Range head_rows(int64_t vocabulary) const override;
  nn::Placement of_head_bias(int64_t vocabulary) const override;
  std::unique_ptr<nn::VocabularyHead> make_head(nn::VocabularyHeadParts parts) override;
  std::unique_ptr<nn::VocabularyHead> make_tied_head(nn::VocabularyHeadParts parts) override;

  const TensorGrid& grid() const { return grid_; }

 private:
  const Sharding& tower_sharding() const { return shardings_.at(tower()); }
  int side() const { return context().strategy().tensor_side(); }
  // Makes a linear layer that is in no pair and has few outputs. Every rank gets all outputs for
  // the tokens that it has between pairs. Throws InternalError if options.bias is true, or if the
  // order of the weight is in_out.
  std::unique_ptr<nn::Linear> linear_of_all_outputs(const std::string& name,
                                                    const nn::LinearOptions& options);
  // Makes the weight of a linear layer that is in no pair: all outputs of this rank's input
  // features. Returns the layer over these features, whose results are to be summed over the ranks
  // of `between.features`, and the bias (an empty handle if options.bias is false).
  std::pair<std::unique_ptr<nn::Linear>, nn::ParameterHandle> linear_over_features(
      const std::string& name, const nn::LinearOptions& options);
  // Makes a vocabulary table. The vocabulary is divided into q parts and each part into pieces.
  // This rank holds the rows in piece number `piece` of part number `part`, and part number
  // `features` of the q parts of the features.
  nn::TokenTable table(const std::string& name, const nn::EmbeddingOptions& options, int part,
                       int piece, int features);
  // Returns the rows of each piece of the vocabulary: of the pieces of part 0, then of part 1, and
  // so on.
  std::vector<Range> rows_of_pieces(int64_t vocabulary) const;
  // Makes the weight and the bias of a layer and appends them to `product`; sets the other fields
  // of `product` but `adapter`. Returns the description of the layer for its adapter.
  AdaptedProduct add(GridProduct& product, const std::string& name,
                     const nn::LinearOptions& options, const LinearSharding& sharding);
  // Describes the input of a layer, for its adapter. sharding: of the layer; for a fused layer, of
  // any of its parts.
  AdaptedInput adapted_input(int64_t in_features, const LinearSharding& sharding);
  // mirror_table: whether the head swaps its part of the table (TensorGrid::mirror_tied_table).
  std::unique_ptr<nn::VocabularyHead> make_head(nn::VocabularyHeadParts parts, bool mirror_table);

  TensorGrid grid_;
  Shardings shardings_;
};

}  // namespace colossal::parallel
