// Tensor parallelism in one dimension (M. Shoeybi et al., "Megatron-LM", 2019).
//
// The first product of a pair holds columns of its weight, the second rows, whose results are
// summed over the ranks. The vocabulary is cut too: rows of the token embedding, and of the head,
// whose logits never travel. Norms, biases of second products and positions are held whole.
//
// Between pairs, without tp_sequence: every rank has the whole activation, [batch, sequence,
// hidden], and equal gradients of what is held whole; an all-reduce ends each pair, forward, and
// begins it, backward. With it (V. Korthikanti et al., "Reducing Activation Recomputation", 2022):
// each has its share of the tokens, [tokens here, hidden], tokens in the order of batch and
// sequence, shares as even as they go; an all-gather begins each pair and a reduce-scatter ends it.
// What is held whole sees other tokens on each rank, so its gradients are summed.
#pragma once

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/expert/sharded_experts.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

// The ranks, and what an activation between pairs is.
struct Tensor1dRanks {
  const comm::Group& group;
  bool share_tokens;

  Shares rows(const nn::StepContext& context) const;
  // Returns all tokens, [batch, sequence, hidden], of an activation between pairs. Its gradient is
  // summed over ranks.
  at::Tensor begin_pair(const at::Tensor& x, const nn::StepContext& context) const;
  // Returns an activation between pairs: the sum over ranks of x, [batch, sequence, hidden].
  at::Tensor end_pair(const at::Tensor& x, const nn::StepContext& context) const;
};

class Tensor1dBuilder : public ExpertBuilder {
 public:
  // table_rows: as DenseBuilder takes it, of this rank's rows.
  Tensor1dBuilder(const ParallelContext& context, Sharding sharding,
                  nn::MakeAttention make_attention, int64_t table_rows);

  std::unique_ptr<nn::Embedding> embedding(const std::string& name,
                                           const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::PositionEmbedding> position_embedding(
      const std::string& name, const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::Linear> linear(const std::string& name,
                                     const nn::LinearOptions& options) override;
  std::unique_ptr<nn::Linear> fused_linear(const nn::FusedLinearOptions& options) override;
  std::unique_ptr<nn::Dropout> dropout(const std::string& name, double probability) override;

 protected:
  nn::Placement whole() const override;
  nn::Placement of_all_heads() const override;
  nn::Placement of_heads(nn::HeadKind kind) const override;
  nn::LocalHeads heads_here(int64_t heads, int64_t kv_heads) const override;
  AdaptedInput input_of_latents(int64_t hidden) override { return input_of_first(hidden); }
  AdaptedInput latents(int64_t features) override;
  nn::Placement of_head_outputs(const std::string& name) const override {
    return of_first_outputs(sharding_.products.at(name));
  }
  std::unique_ptr<nn::Norm> make_norm_over_heads(nn::NormParts parts, nn::HeadKind kind) override;
  std::unique_ptr<nn::Experts> make_experts(nn::ExpertsParts parts,
                                            const nn::ExpertsOptions& options) override;
  std::unique_ptr<nn::Dropout> head_dropout(const std::string& name, double probability) override;
  nn::TokenTable head_table(const std::string& name, const nn::EmbeddingOptions& options) override;
  Range head_rows(int64_t vocabulary) const override;
  std::unique_ptr<nn::VocabularyHead> make_head(nn::VocabularyHeadParts parts) override;

 private:
  // Returns the runs of the cut dim that this rank has.
  std::vector<Range> held_here(const LinearSharding& sharding) const;
  // Weight and bias (empty where there is none) of a first product.
  std::pair<nn::ParameterHandle, nn::ParameterHandle> first_product(
      const std::string& name, const nn::LinearOptions& options, const LinearSharding& sharding);
  // Returns the placement of a first product's outputs.
  nn::Placement of_first_outputs(const LinearSharding& sharding) const;
  // Returns what a product's adapter has at its input. held: of a second product's inputs.
  AdaptedInput input_of_first(int64_t in_features);
  AdaptedInput input_of_second(int64_t in_features, std::vector<Range> held);
  // Dropout where every rank has all tokens.
  std::unique_ptr<nn::Dropout> of_all_tokens(const std::string& name, double probability) const;
  nn::TokenTable vocabulary_table(const std::string& name, const nn::EmbeddingOptions& options);

  Tensor1dRanks ranks_;
  Sharding sharding_;
};

}  // namespace colossal::parallel
