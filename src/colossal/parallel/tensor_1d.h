// One-dimensional tensor parallelism (M. Shoeybi et al., "Megatron-LM", 2019).
//
// Linear layers come in pairs (sharding.h). The first of a pair is cut along its outputs, the
// second along its inputs, and the second's results are summed over ranks. The rows of the token
// embedding and of the vocabulary head are cut too; the loss is computed without sending logits.
// Every rank holds norms, biases of second layers and position embeddings whole.
//
// Activations between pairs, without tp_sequence: every rank has the whole activation [batch,
// sequence, hidden], and computes the same gradients of parameters that it holds whole. An
// all-reduce ends each pair in forward, and another ends it in backward. With tp_sequence (V.
// Korthikanti et al., "Reducing Activation Recomputation", 2022): every rank has its share of the
// tokens, [tokens on this rank, hidden], in the order of the flattened [batch, sequence], as evenly
// divided as possible. An all-gather begins each pair and a reduce-scatter ends it, in forward and
// in backward; backward also gathers the input of the pair's first layer again, for the weights'
// gradients. Parameters held whole see different tokens on each rank, so their gradients are summed
// over ranks.
#pragma once

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/expert/sharded_experts.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

// The tensor-parallel group, and the layout of activations between pairs. share_tokens:
// Strategy::tp_sequence.
struct Tensor1dRanks {
  const comm::Group& group;
  bool share_tokens;

  Shares rows(const nn::StepContext& context) const;
  // Returns all tokens, [batch, sequence, hidden], of an activation x between pairs. In backward,
  // the gradient is summed over ranks.
  at::Tensor begin_pair(const at::Tensor& x, const nn::StepContext& context) const;
  // Sums x [batch, sequence, hidden] over ranks and returns it as an activation between pairs.
  at::Tensor end_pair(const at::Tensor& x, const nn::StepContext& context) const;
};

class Tensor1dBuilder : public ExpertBuilder {
 public:
  // table_rows: as in DenseBuilder; it applies to this rank's rows of the table.
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
  // Returns this rank's ranges of the dim that `sharding` cuts.
  std::vector<Range> held_here(const LinearSharding& sharding) const;
  // Makes weight and bias (empty handle: none) of the first layer of a pair.
  std::pair<nn::ParameterHandle, nn::ParameterHandle> first_product(
      const std::string& name, const nn::LinearOptions& options, const LinearSharding& sharding);
  // Returns the placement of the outputs of the first layer of a pair.
  nn::Placement of_first_outputs(const LinearSharding& sharding) const;
  // Describe the input of an adapter of the first or the second layer of a pair. held: this rank's
  // ranges of the second layer's inputs.
  AdaptedInput input_of_first(int64_t in_features);
  AdaptedInput input_of_second(int64_t in_features, std::vector<Range> held);
  // Makes dropout for activations of which every rank has all tokens.
  std::unique_ptr<nn::Dropout> of_all_tokens(const std::string& name, double probability) const;
  nn::TokenTable vocabulary_table(const std::string& name, const nn::EmbeddingOptions& options);

  Tensor1dRanks ranks_;
  Sharding sharding_;
};

}  // namespace colossal::parallel
