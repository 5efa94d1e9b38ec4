// The common base of tensor parallelism in 2d, 2.5d and 3d. Of an activation, a rank holds some
// sequences of the micro-batch and some features: [sequences on this rank, sequence, features on
// this rank]. Of a weight, it holds a block: some inputs and some outputs. The modes differ in
// which rank holds which part (TensorGrid) and in how they compute a product (make_product()).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/batch_cut.h"
#include "colossal/parallel/expert/sharded_experts.h"
#include "colossal/parallel/panel_product.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

struct TensorGrid {
  struct Activation {
    BatchCut batch;
    const comm::Group& features;  // ranks with other features of the same tokens, in order
    const comm::Group& tokens;    // ranks with the same features of other tokens, in order
    // Gradients of parameters with one value per feature (biases, norm weights) are summed over the
    // ranks of same_features; if the features are keys or values, which further ranks may hold too,
    // over same_keys.
    const comm::Group* same_features;
    const comm::Group* same_keys;
  };
  Activation between;  // between pairs of linear layers (sharding.h)
  Activation within;   // between the two layers of a pair

  // This rank's block of a weight. Inputs and outputs are each cut into tensor_side() parts;
  // `inputs` and `outputs` are the indices of this rank's parts. The stored rows of the block are
  // cut further into `pieces` pieces, of which this rank holds number `piece`.
  struct Block {
    int inputs = 0;
    int outputs = 0;
    int pieces = 1;
    int piece = 0;
  };
  Block first;   // of the first layer of a pair, and of a vocabulary head
  Block second;  // of the second layer, and of an embedding (its inputs are the vocabulary)
  const comm::Group* same_weight;      // gradients of weights are summed over it
  const comm::Group* same_key_weight;  // ... of the weights that make keys and values

  // The token embedding: the ranks of `embedding` divide among them the sequences that the first
  // `embedding_level` cuts of between.batch leave. Each rank looks up the tokens of all these
  // sequences in its own rows of the table; a reduce-scatter sums the results and leaves each rank
  // its own sequences.
  const comm::Group& embedding;
  size_t embedding_level = 0;

  // The vocabulary head gathers its table: the pieces over `table_pieces` (null: there are none),
  // and the features over `table_features`.
  const comm::Group* table_pieces = nullptr;
  const comm::Group& table_features;
  // Whether the head first exchanges its table (if tied to the embedding), or its input activation,
  // with the mirror rank (ParallelContext::mirror_group()).
  bool mirror_tied_table = false;
  bool mirror_activation = false;
};

// What make_product() needs to make a linear layer of one or several weights whose outputs are
// concatenated.
struct GridProduct {
  LinearSharding::Cut cut;
  std::vector<nn::ParameterHandle> weights;
  std::vector<nn::ParameterHandle> biases;  // one per weight, or empty
  nn::WeightOrder order;
  std::vector<int64_t> in_sizes;    // number of inputs in each of the tensor_side() parts
  std::vector<int64_t> block_rows;  // per weight: stored rows of the block, all pieces together
  // If the weights are packed: the layouts on the tensor_side() ranks that hold this block's pieces
  // (3d), or the blocks with this block's outputs (2d, 2.5d).
  PackedPanels packed;
  nn::LowRankAdapter adapter;
};

class TensorGridBuilder : public ExpertBuilder {
 public:
  TensorGridBuilder(const ParallelContext& context, TensorGrid grid, Sharding sharding,
                    nn::MakeAttention make_attention, int64_t table_rows);

  std::unique_ptr<nn::Embedding> embedding(const std::string& name,
                                           const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::PositionEmbedding> position_embedding(
      const std::string& name, const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::Linear> linear(const std::string& name,
                                     const nn::LinearOptions& options) override;
  std::unique_ptr<nn::Linear> fused_linear(const nn::FusedLinearOptions& options) override;
  std::unique_ptr<nn::Dropout> dropout(const std::string& name, double probability) override;
  std::unique_ptr<nn::Attention> attention(const std::string& name,
                                           const nn::AttentionOptions& options) override;
  std::unique_ptr<nn::CrossAttention> cross_attention(const std::string& name,
                                                      const nn::AttentionOptions& options) override;

 protected:
  virtual std::unique_ptr<nn::Linear> make_product(GridProduct product) = 0;
  // Returns the placement of `features` features between pairs of linear layers.
  nn::Placement of_features(int64_t features) const override;
  std::unique_ptr<nn::Norm> make_norm(nn::NormParts parts) override;
  nn::Placement of_all_heads() const override;
  nn::Placement of_heads(nn::HeadKind kind) const override;
  nn::LocalHeads heads_here(int64_t heads, int64_t kv_heads) const override;
  AdaptedInput input_of_latents(int64_t hidden) override {
    return adapted_input(hidden, {.cut = LinearSharding::Cut::outputs});
  }
  nn::Placement of_latent_parts() const override { return of_all_heads(); }
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
  int side() const { return context().strategy().tensor_side(); }
  // Makes a linear layer that is in no pair and has few outputs: every rank gets all outputs for
  // its tokens.
  std::unique_ptr<nn::Linear> linear_of_all_outputs(const std::string& name,
                                                    const nn::LinearOptions& options);
  // Makes a vocabulary table, of which this rank holds the rows in piece number `piece` of part
  // number `part` of the vocabulary, and part number `features` of the features.
  nn::TokenTable table(const std::string& name, const nn::EmbeddingOptions& options, int part,
                       int piece, int features);
  // Returns the rows of every piece of the vocabulary: all pieces of part 0, then of part 1, and so
  // on.
  std::vector<Range> rows_of_pieces(int64_t vocabulary) const;
  // Makes the weight and the bias of a layer, adds them to `product`, and returns what the layer's
  // adapter needs.
  AdaptedProduct add(GridProduct& product, const std::string& name,
                     const nn::LinearOptions& options, const LinearSharding& sharding);
  // Describes the input of a layer's adapter. sharding: of the layer, or of any part of a fused
  // layer.
  AdaptedInput adapted_input(int64_t in_features, const LinearSharding& sharding);
  std::unique_ptr<nn::VocabularyHead> make_head(nn::VocabularyHeadParts parts, bool mirror_table);

  TensorGrid grid_;
  Sharding sharding_;
};

}  // namespace colossal::parallel
