// One-dimensional tensor parallelism (M. Shoeybi et al., "Megatron-LM", 2019): the layers, and the
// builder that makes them.
//
// Linear layers come in pairs (sharding.h). The first layer of a pair is cut along its outputs. The
// second layer is cut along its inputs, and its results are summed over the ranks of tp. The rows
// of the token embedding and of the vocabulary head are divided among these ranks, and the loss is
// computed without sending logits. Every rank holds norms, position embeddings and the biases of
// second layers whole.
//
// Strategy::tp_sequence decides which part of an activation between pairs a rank has:
// - false: Every rank has the whole activation [batch, sequence, hidden]. One all-reduce ends each
//   pair in the forward pass, and one in the backward pass. All ranks compute the same gradients of
//   the parameters that they hold whole.
// - true (V. Korthikanti et al., "Reducing Activation Recomputation", 2022): The flattened tokens
//   [batch * sequence] are divided among the ranks as evenly as possible; a rank has [tokens on
//   this rank, hidden]. An all-gather begins each pair and a reduce-scatter ends it, in the forward
//   and in the backward pass. The backward pass also gathers the input of the first layer again,
//   for the weight gradients. The gradients of parameters that every rank holds whole come from
//   different tokens on each rank, so they are summed over the ranks.
#pragma once

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/expert/sharded_experts.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

// Converts activations at the beginning and at the end of a pair of linear layers.
struct Tensor1dRanks {
  const comm::Group& group;  // the ranks of tp
  bool share_tokens;         // Strategy::tp_sequence

  // Returns how the tokens of a forward pass are divided among the ranks if share_tokens is true.
  Shares rows(const nn::StepContext& context) const;
  // Returns the whole activation [batch, sequence, hidden]. x: this rank's part of an activation
  // between pairs. Backward: sums the gradient over the ranks, and returns this rank's part of it.
  at::Tensor begin_pair(const at::Tensor& x, const nn::StepContext& context) const;
  // Sums x [batch, sequence, hidden] over the ranks. Returns this rank's part of the resulting
  // activation between pairs. Backward: every rank gets the gradient of the whole activation.
  at::Tensor end_pair(const at::Tensor& x, const nn::StepContext& context) const;
};

// ExpertBuilder and nn::DenseBuilder document the overridden functions.
class Tensor1dBuilder : public ExpertBuilder {
 public:
  // shardings: how each linear layer is cut (sharding.h). make_attention: makes the attention over
  // this rank's heads. table_rows: maximum number of rows of one parameter of a vocabulary table;
  // 0: no maximum. `context` must outlive the builder and its layers.
  Tensor1dBuilder(const ParallelContext& context, Shardings shardings,
                  nn::MakeAttention make_attention, int64_t table_rows);

  std::unique_ptr<nn::Embedding> embedding(const std::string& name,
                                           const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::Linear> linear(const std::string& name,
                                     const nn::LinearOptions& options) override;
  std::unique_ptr<nn::Linear> fused_linear(const nn::FusedLinearOptions& options) override;
  nn::TokenPart token_part() const override;
  nn::LocalTokens local_tokens() const override;
  nn::SumOfParts sum_of_parts() const override;

 protected:
  nn::Placement whole() const override;
  nn::Placement of_all_heads() const override;
  nn::Placement of_heads(nn::HeadKind kind) const override;
  nn::LocalHeads heads_here(int64_t heads, int64_t kv_heads) const override;
  AdaptedInput input_of_latents(int64_t hidden) override { return input_of_first(hidden); }
  AdaptedInput latents(int64_t features) override;
  nn::Placement of_head_outputs(const std::string& name) const override {
    return of_first_outputs(tower_sharding().products.at(name));
  }
  std::unique_ptr<nn::Norm> make_norm_over_heads(nn::NormParts parts, nn::HeadKind kind) override;
  std::unique_ptr<nn::Experts> make_experts(nn::ExpertsParts parts,
                                            const nn::ExpertsOptions& options) override;
  std::unique_ptr<nn::Dropout> head_dropout(const std::string& name, double probability) override;
  nn::TokenTable head_table(const std::string& name, const nn::EmbeddingOptions& options) override;
  Range head_rows(int64_t vocabulary) const override;
  std::unique_ptr<nn::VocabularyHead> make_head(nn::VocabularyHeadParts parts) override;

 private:
  const Sharding& tower_sharding() const { return shardings_.at(tower()); }
  // Returns the indices on this rank of the dim that `sharding` cuts.
  std::vector<Range> held_here(const LinearSharding& sharding) const;
  // Makes the weight, then the bias (empty handle if options.bias is false) of the first layer of a
  // pair.
  std::pair<nn::ParameterHandle, nn::ParameterHandle> first_product(
      const std::string& name, const nn::LinearOptions& options, const LinearSharding& sharding);
  // Returns the placement of the outputs of the first layer of a pair.
  nn::Placement of_first_outputs(const LinearSharding& sharding) const;
  // Describes the input of the first layer of a pair, for its adapter.
  AdaptedInput input_of_first(int64_t in_features);
  // Describes the input of the second layer of a pair, for its adapter. held: the indices of the
  // layer's inputs on this rank.
  AdaptedInput input_of_second(int64_t in_features, std::vector<Range> held);
  // Makes dropout for activations of which every rank has all tokens.
  std::unique_ptr<nn::Dropout> of_all_tokens(const std::string& name, double probability) const;
  // Makes the table of an embedding or of a vocabulary head, whose rows are divided among ranks.
  nn::TokenTable vocabulary_table(const std::string& name, const nn::EmbeddingOptions& options);

  Tensor1dRanks ranks_;
  Shardings shardings_;
};

}  // namespace colossal::parallel
