// The builder of unsharded layers: every rank holds the whole model. The sharded builders of
// parallel/ derive from DenseBuilder and override the functions for the layers and parameters that
// they shard.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/dense_layers.h"
#include "colossal/nn/experts.h"
#include "colossal/nn/latent_attention.h"
#include "colossal/nn/low_rank_adapter.h"
#include "colossal/nn/norm_parts.h"
#include "colossal/nn/token_table.h"
#include "colossal/nn/vocabulary_head_parts.h"

namespace colossal::nn {

// Makes an attention layer over this rank's heads, `here`. stream: full name of the layer; also the
// name of the random number stream of the layer's dropout. options: of all heads. parameters: the
// sinks and virtual tokens of this rank's heads, if there are any.
using MakeAttention = std::function<std::unique_ptr<Attention>(
    std::string stream, const AttentionOptions& options, const LocalHeads& here,
    const AttentionParameters& parameters)>;
// Makes a DenseAttention: this rank holds all positions of its sequences.
std::unique_ptr<Attention> make_dense_attention(std::string stream, const AttentionOptions& options,
                                                const LocalHeads& here,
                                                const AttentionParameters& parameters);

// Returns the options of a linear layer that equals one part of a fused linear layer.
LinearOptions part_of(const FusedLinearOptions& options, const FusedLinearOptions::Part& part);

enum class HeadKind { query, key };  // query heads; key heads (and their value heads)

// builder.h explains the functions that this class overrides.
class DenseBuilder : public Builder {
 public:
  // table_rows: maximum number of rows of one parameter of a vocabulary table; tables with more
  // rows on a rank are several parameters (see TokenTable). 0: no maximum.
  explicit DenseBuilder(MakeAttention make_attention = make_dense_attention, int64_t table_rows = 0)
      : make_attention_(std::move(make_attention)), table_rows_(table_rows) {}

  std::unique_ptr<Embedding> embedding(const std::string& name,
                                       const EmbeddingOptions& options) override;
  std::unique_ptr<PositionEmbedding> position_embedding(const std::string& name,
                                                        const EmbeddingOptions& options) override;
  std::unique_ptr<Linear> linear(const std::string& name, const LinearOptions& options) override;
  std::unique_ptr<Linear> fused_linear(const FusedLinearOptions& options) override;
  std::unique_ptr<Linear> hidden_linear(const std::string& name,
                                        const LinearOptions& options) override {
    return linear(name, options);
  }
  std::unique_ptr<LatentAttention> latent_attention(const std::string& name,
                                                    const LatentAttentionOptions& options) override;
  std::unique_ptr<Experts> experts(const std::string& name, const ExpertsOptions& options) override;
  std::unique_ptr<GatedActivation> gated_activation(const std::string& name,
                                                    ops::Activation activation) override;
  std::unique_ptr<Norm> rms_norm(const std::string& name, const NormOptions& options) override;
  std::unique_ptr<Norm> layer_norm(const std::string& name, const NormOptions& options) override;
  std::unique_ptr<Dropout> dropout(const std::string& name, double probability) override;
  std::unique_ptr<Attention> attention(const std::string& name,
                                       const AttentionOptions& options) override;
  std::unique_ptr<RelativeBias> relative_bias(const std::string& name,
                                              const RelativeBiasOptions& options) override;
  std::unique_ptr<CrossAttention> cross_attention(const std::string& name,
                                                  const AttentionOptions& options) override;
  std::unique_ptr<VocabularyHead> vocabulary_head(const std::string& name,
                                                  const VocabularyHeadOptions& options) override;
  std::unique_ptr<VocabularyHead> tied_vocabulary_head(
      const std::string& name, const std::string& embedding_name,
      const VocabularyHeadOptions& options) override;

  // The parameter's stage is that of the current part. It is frozen if the model has adapters and
  // AdapterOptions::trained does not name it.
  ParameterHandle parameter(const std::string& layer, const std::string& name,
                            std::vector<int64_t> shape, Initializer initializer,
                            Placement placement) override;
  using Builder::of_features;
  Placement of_features(int64_t /*features*/) const override { return whole(); }
  Placement used_alike() const override { return {}; }
  TokenPart token_part() const override { return nullptr; }
  LocalTokens local_tokens() const override { return {}; }
  SumOfParts sum_of_parts() const override { return nullptr; }

  const ParameterList& parameters() const override { return parameters_; }
  int64_t virtual_tokens() const override { return adapters_ ? adapters_->virtual_tokens : 0; }
  const std::vector<Magnitudes>& magnitudes() const override { return magnitudes_; }

  void adapt(AdapterOptions options) override { adapters_ = std::move(options); }

  // Tells cross-attention layers made later how ranks divide sequences. Without this call, each
  // rank holds whole sequences.
  void set_divided_sequences(DividedSequences divided) { divided_sequences_ = std::move(divided); }
  // Sets the function that returns the pipeline stage of each part of the model. Without this call
  // all parts are on stage 0. Call it before any layer is made.
  void set_stages(StageOf stage_of) { stage_of_ = std::move(stage_of); }
  void begin_part(const ModelPart& part) override {
    stage_ = stage_of_(part);
    part_ = part;
  }

 protected:
  void enter(const std::string& name) override { path_.push_back(name); }
  void leave() override { path_.pop_back(); }

  // The functions named of_..() return the Placement of parameters: which elements this rank holds.
  // In DenseBuilder, this rank holds all elements of every parameter.

  // Returns the placement of parameters that every rank holds whole.
  virtual Placement whole() const { return {}; }
  // ModelPart::tower of the layers that are made now.
  int tower() const { return part_.tower; }
  // Makes a norm over an activation's features.
  virtual std::unique_ptr<Norm> make_norm(NormParts parts);
  // Returns the placement of a router's parameters.
  virtual Placement of_router() const { return whole(); }
  // A stacked parameter of all experts of a layer.
  struct ExpertStack {
    std::vector<int64_t> shape;  // [experts, ..], of the global tensor
    // The dim with the inner features (ExpertsOptions::inner), which is cut if several ranks divide
    // each expert; -1 if there is no such dim.
    int64_t inner_dim = -1;
    // Number of neighbouring indices of dim inner_dim that belong to one inner feature: 2 if gate
    // and up alternate, else 1.
    int64_t inner_width = 1;
    int64_t layer = 0;  // index of the block
  };
  virtual Placement of_experts(const ExpertStack& /*stack*/) const { return whole(); }
  // Returns the order in which the experts of a layer are placed on ranks; {}: by their indices.
  virtual ExpertPlaces expert_places(const ExpertsOptions& /*options*/) const { return {}; }
  // Matrix A or matrix B of the low-rank adapters of all experts of a layer (see ExpertAdapter).
  struct ExpertAdapterMatrix {
    bool is_a = false;     // true: A; false: B
    int64_t experts = 0;   // number of experts
    int64_t rank = 0;      // of the adapter of one expert
    int64_t features = 0;  // input features of A, or output features of B
    // If `features` are the inner features of the experts, which several ranks may divide: as
    // ExpertStack::inner_width. Else 0.
    int64_t inner_width = 0;
    int64_t layer = 0;  // index of the block
  };
  virtual Placement of_expert_adapter(const ExpertAdapterMatrix& /*matrix*/) const {
    return whole();
  }
  // Returns the function for ExpertsParts::gather_token_rows, with which experts with a capacity
  // gather rows over the ranks that route tokens of the same sequences (expert_capacity.h). Null:
  // no other rank routes tokens of this rank's sequences.
  virtual GatherTokenRows gather_token_rows() const { return nullptr; }
  // Returns the number of ranks that divide the inner features of each expert. The results of these
  // ranks are summed.
  virtual int ranks_per_expert() const { return 1; }
  // Makes a mixture-of-experts layer.
  virtual std::unique_ptr<Experts> make_experts(ExpertsParts parts, const ExpertsOptions& options);
  // Returns the placement of parameters that all heads of an attention read.
  virtual Placement of_all_heads() const { return {}; }
  // Returns the placement of parameters that have a part for each head of this kind. Its `held` is
  // empty; the caller sets it.
  virtual Placement of_heads(HeadKind /*kind*/) const { return {}; }
  // Returns the heads of an attention that are on this rank.
  virtual LocalHeads heads_here(int64_t heads, int64_t kv_heads) const {
    return {{0, heads}, {0, kv_heads}};
  }
  // Makes a norm over the concatenated channels of all query heads or of all key heads of a token,
  // of which this rank may have a part.
  virtual std::unique_ptr<Norm> make_norm_over_heads(NormParts parts, HeadKind kind);
  // Makes dropout for the input of a vocabulary head's adapter. This rank's part of that input has
  // all features of the tokens whose logits this rank computes.
  virtual std::unique_ptr<Dropout> head_dropout(const std::string& name, double probability) {
    return dropout(name, probability);
  }
  // Makes the table of an untied vocabulary head.
  virtual TokenTable head_table(const std::string& name, const EmbeddingOptions& options);
  // Returns the vocabulary rows whose logits this rank computes.
  virtual Range head_rows(int64_t vocabulary) const { return {0, vocabulary}; }
  // Returns the placement of a vocabulary head's bias. Its `held` is empty; the caller sets it.
  virtual Placement of_head_bias(int64_t /*vocabulary*/) const { return {}; }
  // Makes an untied vocabulary head.
  virtual std::unique_ptr<VocabularyHead> make_head(VocabularyHeadParts parts);
  // Makes a vocabulary head that shares the table of an embedding.
  virtual std::unique_ptr<VocabularyHead> make_tied_head(VocabularyHeadParts parts) {
    return make_head(std::move(parts));
  }

  // Returns the names of all open scopes, then `name`, separated by dots: "blocks.3.query".
  std::string full_name(const std::string& name) const;
  // Makes a table whose rows are divided over ranks.
  //   rows_of_ranks  the rows of each rank that holds a part of the table
  //   rank           index of this rank in rows_of_ranks
  //   of_rows        placement of every row; its `held` has one element, the features on this rank,
  //                  or is empty if this rank has all features
  TokenTable token_table(const std::string& name, const EmbeddingOptions& options,
                         const std::vector<Range>& rows_of_ranks, size_t rank,
                         Placement of_rows = {});
  // Returns, for each rank, the blocks into which token_table() cuts the rank's rows. All ranks get
  // the same number of blocks.
  std::vector<std::vector<Range>> blocks_of(const std::vector<Range>& rows_of_ranks) const;
  // A linear layer that may have a low-rank adapter with matrices A and B (low_rank_adapter.h).
  struct AdaptedProduct {
    std::string name;          // of the layer, without the open scopes
    int64_t out_features = 0;  // over all ranks
    // Placement of B [out_features, adapter's rank], except that `held` has one element: the output
    // features on this rank. Empty: all.
    Placement of_b;
    ParameterHandle weight;  // of the layer
  };
  // The input of one or several AdaptedProducts.
  struct AdaptedInput {
    int64_t features = 0;  // over all ranks
    // Placement of A [adapter's rank, features], except that `held` has one element: the input
    // features on this rank. Empty: all.
    Placement of_a{};
    // Makes dropout for this rank's part of the input. Null: Builder::dropout() makes it.
    std::function<std::unique_ptr<Dropout>(const std::string& name, double probability)> dropout =
        nullptr;
    // How the layout of the AdaptedProducts' outputs differs from the layout of this input.
    LowRankAdapter::LayoutChange layout_change{};
  };
  // Returns `linear`, the layer `name` with these options, or a layer that applies dropout to the
  // input of `linear` if options.input_dropout is above 0. input: of `linear`.
  std::unique_ptr<Linear> with_input_dropout(const std::string& name, const LinearOptions& options,
                                             const AdaptedInput& input,
                                             std::unique_ptr<Linear> linear);
  // Describes the input of latent attention's down-projections, whose outputs are the latents.
  // `layout_change.move` of the result converts the latents from the layout in which they are
  // computed to the one in which they are used: every rank with heads of a token has all latents of
  // that token.
  virtual AdaptedInput input_of_latents(int64_t hidden) {
    return {.features = hidden, .of_a = whole()};
  }
  // Returns the placement of matrix B of the adapters of latent attention's down-projections. Its
  // `held` is empty if this rank computes all outputs of the down-projections. Otherwise `held` has
  // one element, for the output dim: the outputs that this rank computes.
  virtual Placement of_latent_adapter_b() const { return whole(); }
  // Describes the input of latent attention's up-projections: the latents in the layout in which
  // they are used.
  virtual AdaptedInput latents(int64_t features) {
    return {.features = features, .of_a = of_all_heads()};
  }
  // Returns the placement of the up-projection `name` ("query_up" or "key_value_up"), for its
  // weight and for B of its adapter. Its `held` is empty if this rank has all heads. Otherwise
  // `held` has one element, for the output dim: the features of this rank's heads.
  virtual Placement of_head_outputs(const std::string& /*name*/) const { return whole(); }
  // Returns the function with which output_norms() (output_norms.h) sums a tensor, in place, over
  // the ranks of tp, which divide the weights. It serves weights with divided inputs and weights
  // with divided outputs: a rank passes zeros for what it does not hold. Null: each rank has whole
  // weights.
  virtual SumOverRanks sum_over_ranks() const { return nullptr; }
  // Makes the adapter of an embedding. It applies per-request adapters and, if
  // AdapterOptions::adapted names a module for the embedding, an adapter of the model.
  EmbeddingAdapter embedding_adapter(const std::string& name, const EmbeddingOptions& options);
  // Makes the adapter of linear layers with a common input. It applies per-request adapters and, to
  // the layers for which AdapterOptions::adapted names a module, adapters of the model.
  LowRankAdapter adapter(const std::vector<AdaptedProduct>& products, const AdaptedInput& input);
  // Makes the parameters of a linear layer. Returns the weight, then the bias, which is an empty
  // handle if options.bias is false.
  std::pair<ParameterHandle, ParameterHandle> linear_parameters(const std::string& name,
                                                                const LinearOptions& options,
                                                                Placement of_weight,
                                                                Placement of_bias);

 private:
  std::unique_ptr<ExpertStacks> expert_stacks(const std::string& name,
                                              const ExpertsOptions& options);
  // One of several expert stacks with the same input. The adapters of these stacks share A.
  struct AdaptedStack {
    std::string name;
    int64_t out_features = 0;  // of one expert, over all ranks
  };
  // Makes the adapter of `stacks`. cut_outputs: true if the experts' inner features, which ranks
  // may divide, are the outputs of the stacks; false if they are the inputs. inner_width: see
  // ExpertStack.
  ExpertAdapter expert_adapter(const std::vector<AdaptedStack>& stacks, int64_t in_features,
                               const ExpertsOptions& options, bool cut_outputs,
                               int64_t inner_width);
  // Registers a stacked parameter of all experts.
  ParameterHandle register_expert_stack(const std::string& layer, const char* name,
                                        const ExpertStack& stack, Initializer initializer);
  Router router(const ExpertsOptions& options);
  // Sets `down`, `down_biases` and `move` of `parts`.
  void make_down(const LatentAttentionOptions& options, LatentAttentionLayer::Parts& parts);
  // Makes an RMS norm of latents.
  std::unique_ptr<Norm> latent_norm(const std::string& name, int64_t features, double epsilon);
  // Makes the weight of an up-projection of latents.
  ParameterHandle latent_weight(const std::string& name, const LinearOptions& options);
  // Makes the linear layer of an up-projection of latents, with `weight` and an adapter.
  std::unique_ptr<Linear> latent_product(const std::string& name, const LinearOptions& options,
                                         const ParameterHandle& weight);
  // Makes LatentAttentionLayer::Parts::absorbed_attention.
  std::unique_ptr<Attention> attention_of_latents(const std::string& name,
                                                  const LatentAttentionOptions& options);
  HeadAdapter head_adapter(const std::string& name, const EmbeddingOptions& table);
  // Registers a trained parameter of a low-rank adapter.
  ParameterHandle low_rank_parameter(const std::string& layer, const char* name,
                                     std::vector<int64_t> shape, Initializer initializer,
                                     Placement placement);
  // Returns the parts of a vocabulary head with the given table. Makes the head's bias (if
  // options.bias) and its adapter.
  VocabularyHeadParts head_parts(const std::string& name, const VocabularyHeadOptions& options,
                                 TokenTable table);
  std::unique_ptr<Norm> norm(const std::string& name, const NormOptions& options, bool centered);
  std::unique_ptr<Norm> query_key_norm(const AttentionOptions& options, const LocalHeads& here);
  // Makes the parts of the norm of queries, or of the norm of keys.
  NormParts head_norm_parts(HeadKind kind, const AttentionOptions& options, const LocalHeads& here);
  AttentionParameters attention_parameters(const std::string& name, const AttentionOptions& options,
                                           const LocalHeads& here);
  // Registers the virtual keys or the virtual values of an attention. size: features of one head.
  ParameterHandle virtual_heads(const std::string& name, const AttentionOptions& options,
                                const LocalHeads& here, int64_t size);

  MakeAttention make_attention_;
  std::optional<DividedSequences> divided_sequences_;  // nullopt: each rank has whole sequences
  std::optional<AdapterOptions> adapters_;             // nullopt: all weights are trained
  int64_t table_rows_;
  StageOf stage_of_ = [](const ModelPart&) { return 0; };
  int stage_ = 0;                  // of the current part
  ModelPart part_;                 // of the layers that are made now
  std::vector<std::string> path_;  // names of the open scopes
  ParameterList parameters_;
  std::vector<Magnitudes> magnitudes_;
};

}  // namespace colossal::nn
