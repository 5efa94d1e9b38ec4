// Makes unsharded layers, for a model whose ranks each hold all of it. Sharded builders derive from
// DenseBuilder and override the functions for what they shard.
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

// Makes attention over this rank's heads, `here`. stream: full name of the layer, which is also the
// name of the random number stream of its dropout.
using MakeAttention = std::function<std::unique_ptr<Attention>(
    std::string stream, const AttentionOptions& options, const LocalHeads& here,
    const AttentionParameters& parameters)>;
std::unique_ptr<Attention> make_dense_attention(std::string stream, const AttentionOptions& options,
                                                const LocalHeads& here,
                                                const AttentionParameters& parameters);

// Returns the options that one part of a fused linear layer has as a linear layer of its own.
LinearOptions part_of(const FusedLinearOptions& options, const FusedLinearOptions::Part& part);

enum class HeadKind { query, key };

class DenseBuilder : public Builder {
 public:
  // table_rows: the maximum number of rows of a vocabulary table that one parameter may have; 0: no
  // limit (see TokenTable).
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

  // Sets the pipeline stage of each part; without this call all parts are on stage 0. Call it
  // before any layer is made.
  void set_stages(StageOf stage_of) { stage_of_ = std::move(stage_of); }
  void begin_part(const ModelPart& part) override { stage_ = stage_of_(part); }

 protected:
  void enter(const std::string& name) override { path_.push_back(name); }
  void leave() override { path_.pop_back(); }

  // The virtual functions named of_..() return placements; DenseBuilder's place every parameter
  // whole on this rank. whole(): the placement of parameters that every rank holds whole.
  virtual Placement whole() const { return {}; }
  // of_features(): placement of the parameters of a norm over an activation's features.
  // make_norm(): makes that norm.
  virtual Placement of_features(int64_t /*features*/) const { return whole(); }
  virtual std::unique_ptr<Norm> make_norm(NormParts parts);
  // Placement of a router's parameters.
  virtual Placement of_router() const { return whole(); }
  // A stacked parameter of all experts, [experts, ..]. inner_dim: the dim with the `inner` features
  // (ExpertsOptions), which is cut if several ranks divide each expert; -1 if there is none.
  // inner_width: number of neighbouring indices of that dim that belong to one inner feature.
  struct ExpertStack {
    std::vector<int64_t> shape;
    int64_t inner_dim = -1;
    int64_t inner_width = 1;
    int64_t layer = 0;  // index of the block
  };
  virtual Placement of_experts(const ExpertStack& /*stack*/) const { return whole(); }
  // Returns the order in which the experts of a layer are placed on ranks.
  virtual ExpertPlaces expert_places(const ExpertsOptions& /*options*/) const { return {}; }
  // A or B of the adapters of all experts, see ExpertAdapter. inner_width: as in ExpertStack if
  // `features` are the inner features of the experts, which may be cut; else 0.
  struct ExpertFactor {
    bool is_down = false;  // true: A; false: B
    int64_t experts = 0;
    int64_t rank = 0;
    int64_t features = 0;  // input features of A, or output features of B
    int64_t inner_width = 0;
    int64_t layer = 0;  // index of the block
  };
  virtual Placement of_expert_adapter(const ExpertFactor& /*factor*/) const { return whole(); }
  // See ExpertsParts::gather_token_rows.
  virtual GatherTokenRows gather_token_rows() const { return nullptr; }
  // Number of ranks that divide each expert, whose results are summed.
  virtual int expert_parts() const { return 1; }
  // Makes the layer of these parts.
  virtual std::unique_ptr<Experts> make_experts(ExpertsParts parts, const ExpertsOptions& options);
  // of_all_heads(): placement of parameters that all heads of an attention read. of_heads():
  // placement of parameters with a part for each query head or key head, without `held`, which the
  // caller sets.
  virtual Placement of_all_heads() const { return {}; }
  virtual Placement of_heads(HeadKind /*kind*/) const { return {}; }
  // Returns the heads of an attention that are on this rank.
  virtual LocalHeads heads_here(int64_t heads, int64_t kv_heads) const {
    return {{0, heads}, {0, kv_heads}};
  }
  // Makes a norm over the channels of all query heads or all key heads; this rank has some of these
  // heads.
  virtual std::unique_ptr<Norm> make_norm_over_heads(NormParts parts, HeadKind kind);
  // Makes dropout for the input of a vocabulary head's adapter: all features of the tokens whose
  // logits this rank computes.
  virtual std::unique_ptr<Dropout> head_dropout(const std::string& name, double probability) {
    return dropout(name, probability);
  }
  // Makes the table of an untied vocabulary head.
  virtual TokenTable head_table(const std::string& name, const EmbeddingOptions& options);
  // head_rows(): the vocabulary rows whose logits this rank computes. of_head_bias(): placement of
  // the head's bias.
  virtual Range head_rows(int64_t vocabulary) const { return {0, vocabulary}; }
  virtual Placement of_head_bias(int64_t /*vocabulary*/) const { return {}; }
  virtual std::unique_ptr<VocabularyHead> make_head(VocabularyHeadParts parts);
  // Makes a head that is tied to the embedding's table.
  virtual std::unique_ptr<VocabularyHead> make_tied_head(VocabularyHeadParts parts) {
    return make_head(std::move(parts));
  }

  // Returns `name` after the names of all open scopes: "blocks.3." + name.
  std::string full_name(const std::string& name) const;
  // Registers the parameter LAYER.NAME, whose full name must be new. Sets its stage to that of the
  // current part, and freezes it if the model has adapters and AdapterOptions::trained does not
  // name it.
  ParameterHandle parameter(const std::string& layer, const std::string& name,
                            std::vector<int64_t> shape, Initializer initializer,
                            Placement placement);
  // Makes a table whose rows are divided over ranks. rows_of_ranks: the rows of each rank; rank:
  // the index of this rank. of_rows: placement of one row; its `held` has one element, this rank's
  // features, or is empty if this rank has all features.
  TokenTable token_table(const std::string& name, const EmbeddingOptions& options,
                         const std::vector<Range>& rows_of_ranks, size_t rank,
                         Placement of_rows = {});
  // Returns, for each rank, the blocks into which token_table() cuts its rows; all ranks have
  // equally many blocks.
  std::vector<std::vector<Range>> blocks_of(const std::vector<Range>& rows_of_ranks) const;
  // A linear layer that may have a low-rank adapter; several may share an AdaptedInput.
  struct AdaptedProduct {
    std::string name;
    int64_t out_features = 0;  // on all ranks
    Placement of_up;           // of B, but `held` has the output dim only
    ParameterHandle weight;
  };
  struct AdaptedInput {
    int64_t features = 0;  // on all ranks
    Placement of_down{};   // of A, but `held` has the input dim only
    // Makes dropout of this rank's part of the input. Null: dropout() makes it.
    std::function<std::unique_ptr<Dropout>(const std::string& name, double probability)> dropout =
        nullptr;
    LowRankAdapter::LayoutChange way{};
  };
  // Returns the description of the activation that latent attention projects down to latents.
  // `way.move` redistributes the latents: afterwards every rank that has heads of a token has all
  // latents of that token.
  virtual AdaptedInput input_of_latents(int64_t hidden) {
    return {.features = hidden, .of_down = whole()};
  }
  // Placement of B of the down-projections' adapters; the outputs of B are latents before
  // `way.move`.
  virtual Placement of_latent_parts() const { return whole(); }
  // Returns the description of the latents after `way.move`, the input of the up-projections.
  virtual AdaptedInput latents(int64_t features) {
    return {.features = features, .of_down = of_all_heads()};
  }
  // Placement of the outputs of the up-projection `name`, which belong to heads; `held` has the
  // output dim only.
  virtual Placement of_head_outputs(const std::string& /*name*/) const { return whole(); }
  // Returns the function that sums over the ranks that divide the weights. Null: each rank has
  // whole weights.
  virtual SumOverRanks sum_over_ranks() const { return nullptr; }
  // Makes the adapter of an embedding. If AdapterOptions does not name the embedding, it applies
  // per-request adapters only.
  EmbeddingAdapter embedding_adapter(const std::string& name, const EmbeddingOptions& options);
  // Makes the adapter of these products, of which AdapterOptions may name some; to the others it
  // applies per-request adapters only.
  LowRankAdapter adapter(const std::vector<AdaptedProduct>& products, const AdaptedInput& input);
  // Makes weight and bias of a linear layer; the bias is an empty handle if options.bias is false.
  std::pair<ParameterHandle, ParameterHandle> linear_parameters(const std::string& name,
                                                                const LinearOptions& options,
                                                                Placement of_weight,
                                                                Placement of_bias);

 private:
  std::unique_ptr<ExpertStacks> expert_stacks(const std::string& name,
                                              const ExpertsOptions& options);
  // One of several expert stacks that have the same input and so share A.
  struct AdaptedStack {
    std::string name;
    int64_t out_features = 0;
  };
  // cut_outputs: whether the inner features, which ranks may divide, are the outputs of the stacks;
  // else they are the inputs.
  ExpertAdapter expert_adapter(const std::vector<AdaptedStack>& stacks, int64_t in_features,
                               const ExpertsOptions& options, bool cut_outputs,
                               int64_t inner_width);
  // Registers a stacked parameter.
  ParameterHandle of_all_experts(const std::string& layer, const char* name,
                                 const ExpertStack& stack, Initializer initializer);
  Router router(const ExpertsOptions& options);
  // These make the parts of latent attention. make_down(): the down-projection and `parts.move`;
  // latent_norm(): a norm of latents; latent_weight() and latent_product(): the weight and the
  // linear layer of an up-projection; attention_of_latents():
  // LatentAttentionLayer::Parts::absorbed_attention.
  void make_down(const LatentAttentionOptions& options, LatentAttentionLayer::Parts& parts);
  std::unique_ptr<Norm> latent_norm(const std::string& name, int64_t features, double epsilon);
  ParameterHandle latent_weight(const std::string& name, const LinearOptions& options);
  std::unique_ptr<Linear> latent_product(const std::string& name, const LinearOptions& options,
                                         const ParameterHandle& weight);
  std::unique_ptr<Attention> attention_of_latents(const std::string& name,
                                                  const LatentAttentionOptions& options);
  HeadAdapter head_adapter(const std::string& name, const EmbeddingOptions& table);
  // Makes a trained parameter of a low-rank adapter.
  ParameterHandle low_rank_parameter(const std::string& layer, const char* name,
                                     std::vector<int64_t> shape, Initializer initializer,
                                     Placement placement);
  // Makes the parts of a vocabulary head with `table`: its bias, if options has one, and its
  // adapter.
  VocabularyHeadParts head_parts(const std::string& name, const VocabularyHeadOptions& options,
                                 TokenTable table);
  std::unique_ptr<Norm> norm(const std::string& name, const NormOptions& options, bool centered);
  std::unique_ptr<Norm> query_key_norm(const AttentionOptions& options, const LocalHeads& here);
  // Makes the parts of the norm of queries, or of the norm of keys.
  NormParts head_norm_parts(HeadKind kind, const AttentionOptions& options, const LocalHeads& here);
  AttentionParameters attention_parameters(const std::string& name, const AttentionOptions& options,
                                           const LocalHeads& here);
  // Makes the virtual keys or the virtual values; size: features of a head.
  ParameterHandle virtual_heads(const std::string& name, const AttentionOptions& options,
                                const LocalHeads& here, int64_t size);

  MakeAttention make_attention_;
  std::optional<AdapterOptions> adapters_;  // nullopt: all weights are trained
  int64_t table_rows_;
  StageOf stage_of_ = [](const ModelPart&) { return 0; };
  int stage_ = 0;  // of the current part
  std::vector<std::string> path_;
  ParameterList parameters_;
  std::vector<Magnitudes> magnitudes_;
};

}  // namespace colossal::nn
