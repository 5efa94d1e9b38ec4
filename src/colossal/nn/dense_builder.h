// Makes layers of one process: what a model gets without parallelism. Sharded builders derive from
// it and override what is not whole on each rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/experts.h"
#include "colossal/nn/latent_attention.h"
#include "colossal/nn/low_rank_adapter.h"
#include "colossal/nn/norm_parts.h"
#include "colossal/nn/token_table.h"
#include "colossal/nn/vocabulary_head_parts.h"

namespace colossal::nn {

// Makes attention over the heads here. stream: names the random numbers of its dropout.
using MakeAttention = std::function<std::unique_ptr<Attention>(
    std::string stream, const AttentionOptions& options, const LocalHeads& here,
    const AttentionParameters& parameters)>;
std::unique_ptr<Attention> make_dense_attention(std::string stream, const AttentionOptions& options,
                                                const LocalHeads& here,
                                                const AttentionParameters& parameters);

// Returns the options of one part of a fused product as a product of its own.
LinearOptions part_of(const FusedLinearOptions& options, const FusedLinearOptions::Part& part);

enum class HeadKind { query, key };

class DenseBuilder : public Builder {
 public:
  // table_rows: the most rows of a vocabulary's table in one parameter; 0: all.
  explicit DenseBuilder(MakeAttention make_attention = make_dense_attention, int64_t table_rows = 0)
      : make_attention_(std::move(make_attention)), table_rows_(table_rows) {}

  std::unique_ptr<Embedding> embedding(const std::string& name,
                                       const EmbeddingOptions& options) override;
  std::unique_ptr<PositionEmbedding> position_embedding(const std::string& name,
                                                        const EmbeddingOptions& options) override;
  std::unique_ptr<Linear> linear(const std::string& name, const LinearOptions& options) override;
  std::unique_ptr<Linear> fused_linear(const FusedLinearOptions& options) override;
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
  std::unique_ptr<CrossAttention> cross_attention(const std::string& name,
                                                  const AttentionOptions& options) override;
  std::unique_ptr<VocabularyHead> vocabulary_head(const std::string& name,
                                                  const VocabularyHeadOptions& options) override;
  std::unique_ptr<VocabularyHead> tied_vocabulary_head(
      const std::string& name, const std::string& embedding_name,
      const VocabularyHeadOptions& options) override;

  const ParameterList& parameters() const override { return parameters_; }
  int64_t virtual_tokens() const override { return adapters_ ? adapters_->virtual_tokens : 0; }
  const std::vector<Magnitudes>& magnitudes() const override { return magnitudes_; }

  void adapt(AdapterOptions options) override { adapters_ = std::move(options); }

  // Sets the pipeline stage of each part; without it one stage has all. Called before any layer is
  // made.
  void set_stages(StageOf stage_of) { stage_of_ = std::move(stage_of); }
  void begin_part(const ModelPart& part) override { stage_ = stage_of_(part); }

 protected:
  void enter(const std::string& name) override { path_.push_back(name); }
  void leave() override { path_.pop_back(); }

  // The placement of parameters that every rank holds whole.
  virtual Placement whole() const { return {}; }
  // Return the placement of a norm's parameters, and make the norm of them.
  virtual Placement of_features(int64_t /*features*/) const { return whole(); }
  virtual std::unique_ptr<Norm> make_norm(NormParts parts);
  // The placement of a router's parameters.
  virtual Placement of_router() const { return whole(); }
  // A parameter of all experts, [experts, ..], and its dim that is cut where a part of each expert
  // is here: that of `inner` features, each of `inner_width` neighbours. No dim: -1.
  struct ExpertStack {
    std::vector<int64_t> shape;
    int64_t inner_dim = -1;
    int64_t inner_width = 1;
    int64_t layer = 0;  // index of the block
  };
  virtual Placement of_experts(const ExpertStack& /*stack*/) const { return whole(); }
  virtual ExpertPlaces expert_places(const ExpertsOptions& /*options*/) const { return {}; }
  // A or B of the adapters of all experts, see ExpertAdapter. inner_width: as in ExpertStack, where
  // its features are cut as `inner` ones; 0: they are not.
  struct ExpertFactor {
    bool is_down = false;  // A
    int64_t experts = 0;
    int64_t rank = 0;
    int64_t features = 0;  // inputs of A, outputs of B
    int64_t inner_width = 0;
    int64_t layer = 0;  // index of the block
  };
  virtual Placement of_expert_adapter(const ExpertFactor& /*factor*/) const { return whole(); }
  // See ExpertsParts.
  virtual ShareRows share_rows() const { return nullptr; }
  // How many ranks have a part each of the same expert; their results are summed.
  virtual int expert_parts() const { return 1; }
  virtual std::unique_ptr<Experts> make_experts(ExpertsParts parts, const ExpertsOptions& options);
  // of_all_heads(): the placement of parameters that all heads of an attention share. of_heads():
  // of those that belong to query heads, or key heads; the caller sets `held`.
  virtual Placement of_all_heads() const { return {}; }
  virtual Placement of_heads(HeadKind /*kind*/) const { return {}; }
  // Of an attention's heads those that are here.
  virtual LocalHeads heads_here(int64_t heads, int64_t kv_heads) const {
    return {{0, heads}, {0, kv_heads}};
  }
  // A norm over all heads of queries, or of keys, of which some are here.
  virtual std::unique_ptr<Norm> make_norm_over_heads(NormParts parts, HeadKind kind);
  // Dropout of what a head multiplies, all features of the tokens whose logits it computes here.
  virtual std::unique_ptr<Dropout> head_dropout(const std::string& name, double probability) {
    return dropout(name, probability);
  }
  // Makes the table of a head that is not tied.
  virtual TokenTable head_table(const std::string& name, const EmbeddingOptions& options);
  // Return the rows of the vocabulary whose logits a head computes here, and the placement of its
  // bias.
  virtual Range head_rows(int64_t vocabulary) const { return {0, vocabulary}; }
  virtual Placement of_head_bias(int64_t /*vocabulary*/) const { return {}; }
  virtual std::unique_ptr<VocabularyHead> make_head(VocabularyHeadParts parts);
  // The same for a head that has the embedding's table.
  virtual std::unique_ptr<VocabularyHead> make_tied_head(VocabularyHeadParts parts) {
    return make_head(std::move(parts));
  }

  std::string full_name(const std::string& name) const;
  ParameterHandle parameter(const std::string& layer, const std::string& name,
                            std::vector<int64_t> shape, Initializer initializer,
                            Placement placement);
  // Makes a table whose rows are divided among ranks. rows_of_ranks: the rows of each; this one is
  // `rank`. of_rows: the placement of a row; its `held` has the features here, or no dims if all
  // are.
  TokenTable token_table(const std::string& name, const EmbeddingOptions& options,
                         const std::vector<Range>& rows_of_ranks, size_t rank,
                         Placement of_rows = {});
  // Returns the blocks into which token_table() cuts the rows of each rank, equally many for all.
  std::vector<std::vector<Range>> blocks_of(const std::vector<Range>& rows_of_ranks) const;
  // Products of one input, side by side, that may be adapted.
  struct AdaptedProduct {
    std::string name;
    int64_t out_features = 0;  // on all ranks
    Placement of_up;           // of B; `held` is for its outputs only
    ParameterHandle weight;
  };
  struct AdaptedInput {
    int64_t features = 0;  // on all ranks
    Placement of_down{};   // of A; `held`: of its inputs alone
    // Of what is here of the input. Null: dropout().
    std::function<std::unique_ptr<Dropout>(const std::string& name, double probability)> dropout =
        nullptr;
    LowRankAdapter::Way way{};
  };
  // The activation from which latents are made, whose `way` brings these to where they are used:
  // there every rank that has heads of a token has all of its latents.
  virtual AdaptedInput input_of_latents(int64_t hidden) {
    return {.features = hidden, .of_down = whole()};
  }
  // The placement of what multiplies parts of latents before they are moved.
  virtual Placement of_latent_parts() const { return whole(); }
  // Latents where they are used.
  virtual AdaptedInput latents(int64_t features) {
    return {.features = features, .of_down = of_all_heads()};
  }
  // The placement of outputs of the product `name` that belong to heads.
  virtual Placement of_head_outputs(const std::string& /*name*/) const { return whole(); }
  // Sums over the ranks among whom weights are cut. Null: each has all of them.
  virtual SumOverRanks sum_over_ranks() const { return nullptr; }
  // Of the layer that looks up a token table, if it is to be adapted.
  EmbeddingAdapter embedding_adapter(const std::string& name, const EmbeddingOptions& options);
  // Adapts those that are to be.
  LowRankAdapter adapter(const std::vector<AdaptedProduct>& products, const AdaptedInput& input);
  // Makes weight and bias (empty: none) of a product.
  std::pair<ParameterHandle, ParameterHandle> linear_parameters(const std::string& name,
                                                                const LinearOptions& options,
                                                                Placement of_weight,
                                                                Placement of_bias);

 private:
  std::unique_ptr<ExpertStacks> expert_stacks(const std::string& name,
                                              const ExpertsOptions& options);
  // Of stacks of one input, by their names, each with so many outputs.
  struct AdaptedStack {
    std::string name;
    int64_t out_features = 0;
  };
  ExpertAdapter expert_adapter(const std::vector<AdaptedStack>& stacks, int64_t in_features,
                               const ExpertsOptions& options, bool cut_outputs,
                               int64_t inner_width);
  ParameterHandle of_all_experts(const std::string& layer, const char* name,
                                 const ExpertStack& stack, Initializer initializer);
  Router router(const ExpertsOptions& options);
  // Of latent attention: the product to latents, with its `move`; a norm of latents; the weight of
  // a product of them, and the product; attention among latents, or null.
  void make_down(const LatentAttentionOptions& options, LatentAttentionLayer::Parts& parts);
  std::unique_ptr<Norm> latent_norm(const std::string& name, int64_t features, double epsilon);
  ParameterHandle latent_weight(const std::string& name, const LinearOptions& options);
  std::unique_ptr<Linear> latent_product(const std::string& name, const LinearOptions& options,
                                         const ParameterHandle& weight);
  std::unique_ptr<Attention> attention_of_latents(const std::string& name,
                                                  const LatentAttentionOptions& options);
  HeadAdapter head_adapter(const std::string& name, const EmbeddingOptions& table);
  // A parameter of a low-rank adapter.
  ParameterHandle low_rank_parameter(const std::string& layer, const char* name,
                                     std::vector<int64_t> shape, Initializer initializer,
                                     Placement placement);
  // What a head has besides its table.
  VocabularyHeadParts head_parts(const std::string& name, const VocabularyHeadOptions& options,
                                 TokenTable table);
  std::unique_ptr<Norm> norm(const std::string& name, const NormOptions& options, bool centered);
  std::unique_ptr<Norm> query_key_norm(const AttentionOptions& options, const LocalHeads& here);
  // The norm's parameters for heads of queries or of keys.
  NormParts head_norm_parts(HeadKind kind, const AttentionOptions& options, const LocalHeads& here);
  AttentionParameters attention_parameters(const std::string& name, const AttentionOptions& options,
                                           const LocalHeads& here);
  // Keys or values, of heads of `size` features.
  ParameterHandle virtual_heads(const std::string& name, const AttentionOptions& options,
                                const LocalHeads& here, int64_t size);

  MakeAttention make_attention_;
  std::optional<AdapterOptions> adapters_;  // unset: all weights are trained
  int64_t table_rows_;
  StageOf stage_of_ = [](const ModelPart&) { return 0; };
  int stage_ = 0;  // of the layers being made
  std::vector<std::string> path_;
  ParameterList parameters_;
  std::vector<Magnitudes> magnitudes_;
};

}  // namespace colossal::nn
