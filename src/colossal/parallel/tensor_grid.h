// What tensor parallelism in two dimensions and more has in common: a rank holds, of an activation,
// some of a micro-batch's sequences and some of its features, [sequences here, sequence, features
// here], and of a weight a block of its inputs and outputs. Modes differ in who has what and in
// how a product is made of that; they say so in a TensorGrid.
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
    const comm::Group& features;  // ranks with the other features of the same tokens, in order
    const comm::Group& tokens;    // ranks with the same features of the other tokens, in order
    // The ranks over which gradients of parameters by feature are summed; same_keys: if the
    // features are keys or values, which further ranks hold too.
    const comm::Group* same_features;
    const comm::Group* same_keys;
  };
  Activation between;  // pairs of products, as in tensor_1d.h
  Activation within;   // a pair

  // The block of a weight on this rank. Inputs and outputs are each cut over tensor_side() ranks,
  // and the stored rows of the block into `pieces`, of which this rank has `piece`.
  struct Block {
    int inputs = 0;
    int outputs = 0;
    int pieces = 1;
    int piece = 0;
  };
  Block first;   // of the first product of a pair, and of a vocabulary head
  Block second;  // of the second, and of an embedding, whose inputs are the vocabulary
  const comm::Group* same_weight;      // over which weights' gradients are summed; null: data group
  const comm::Group* same_key_weight;  // of those that make keys and values

  // An embedding's ranks look up the tokens that the first `embedding_level` cuts of `between`
  // leave here, each in its rows, and share out the sums.
  const comm::Group& embedding;
  size_t embedding_level = 0;

  // The head's table is gathered: pieces over `table_pieces` (null: whole), features over
  // `table_features`.
  const comm::Group* table_pieces = nullptr;
  const comm::Group& table_features;
  // Whether the table tied to the embedding's, or the activation, must come from the mirror rank
  // before.
  bool mirror_tied_table = false;
  bool mirror_activation = false;
};

// A product of one or several weights side by side, and what a mode needs to know of it.
struct GridProduct {
  LinearSharding::Cut cut;
  std::vector<nn::ParameterHandle> weights;
  std::vector<nn::ParameterHandle> biases;  // as many, or none
  nn::WeightOrder order;
  std::vector<int64_t> in_sizes;    // inputs in each of tensor_side() parts
  std::vector<int64_t> block_rows;  // of each weight: rows of the block, as stored, of all pieces
  // How the ranks among whom a block of inputs and outputs is divided, or who have the other inputs
  // of the same outputs, hold theirs.
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
  // Returns the placement of `features` between pairs of products.
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
  // Of a product that is in no pair.
  std::unique_ptr<nn::Linear> linear_of_all_outputs(const std::string& name,
                                                    const nn::LinearOptions& options);
  // The table of a vocabulary of which the `part`th part, and of it the `piece`th piece, is here,
  // and of the features the `features`th part.
  nn::TokenTable table(const std::string& name, const nn::EmbeddingOptions& options, int part,
                       int piece, int features);
  // Returns the rows of each piece of each part of the vocabulary.
  std::vector<Range> rows_of_pieces(int64_t vocabulary) const;
  // Adds what is stored for a product to `product`; gives what its adapter needs to know of it.
  AdaptedProduct add(GridProduct& product, const std::string& name,
                     const nn::LinearOptions& options, const LinearSharding& sharding);
  // What of a product's adapter lies at its input; sharding: of one of the products.
  AdaptedInput adapted_input(int64_t in_features, const LinearSharding& sharding);
  std::unique_ptr<nn::VocabularyHead> make_head(nn::VocabularyHeadParts parts, bool mirror_table);

  TensorGrid grid_;
  Sharding sharding_;
};

}  // namespace colossal::parallel
