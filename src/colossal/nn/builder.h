// A model makes its layers by a Builder, which registers their parameters by name. DenseBuilder
// makes unsharded layers, the builders of parallel/ sharded ones. A model does not know which
// builder it uses.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/router.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/clamped_gate.h"
#include "colossal/ops/packed_weight.h"
#include "colossal/ops/rotary.h"

namespace colossal::nn {

struct LinearOptions {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = true;
  WeightOrder order = WeightOrder::out_in;
  Initializer initializer = Initializer::normal(0.02);
};

// Several linear layers with the same input, whose outputs are concatenated. Each part has its own
// parameters, NAME.weight and NAME.bias.
struct FusedLinearOptions {
  struct Part {
    std::string name;
    int64_t out_features = 0;
  };
  int64_t in_features = 0;
  std::vector<Part> parts;
  bool bias = true;
  Initializer initializer = Initializer::normal(0.02);
};

// A mixture-of-experts layer whose experts are gated MLPs. Parameters: those of Router, and the
// stacked weights of all experts: NAME.gate.weight and NAME.up.weight, [experts, inner, hidden],
// and NAME.down.weight, [experts, hidden, inner]. With clamped_gate (GPT-OSS): NAME.gate_up.weight,
// [experts, hidden, 2 * inner], where columns of gate and up alternate; NAME.down.weight, [experts,
// inner, hidden]; NAME.gate_up.bias, [experts, 2 * inner]; NAME.down.bias, [experts, hidden].
struct ExpertsOptions {
  int64_t layer = 0;  // index of the block
  int64_t hidden = 0;
  int64_t inner = 0;  // inner features of one expert
  RouterOptions router{};
  ops::Activation activation = ops::Activation::silu;
  std::optional<ops::ClampedGate> clamped_gate{};  // replaces `activation`
  Initializer initializer = Initializer::normal(0.02);
  Initializer down_initializer = Initializer::normal(0.02);
};

// Parameters: NAME.weight and, for a layer norm, NAME.bias, each [features].
struct NormOptions {
  int64_t features = 0;
  double epsilon = 1e-5;
  bool weight = true;        // false: no parameters at all
  bool bias = true;          // layer norm only; an RMS norm has no bias
  bool unit_offset = false;  // multiply by 1 + weight; weight is initialized to 0 (Gemma)
};

struct EmbeddingOptions {
  int64_t vocabulary = 0;
  int64_t features = 0;
  Initializer initializer = Initializer::normal(0.02);
  int64_t first_row = 0;  // of position embeddings: table row of position 0
};

// The output layer of a language model (LM head): logits = soft_cap * tanh(logit_scale * (x table^T
// + bias) / soft_cap).
struct VocabularyHeadOptions {
  EmbeddingOptions table;
  bool bias = false;  // parameter NAME.bias, [vocabulary]; not shared by a tied head
  double logit_scale = 1;
  double soft_cap = 0;  // 0: none
};

// Norms of queries and keys, applied after their projection and before the rotary embedding.
// Parameters, in the scope of the attention: "query_norm.weight", "key_norm.weight" and, with
// `bias`, "query_norm.bias", "key_norm.bias".
struct QueryKeyNormOptions {
  enum class Kind { none, rms, layer };
  enum class Over {
    each_head,  // over the channels of one head
    all_heads   // over the channels of all heads of a token; weights are [heads * head_size]
  };
  Kind kind = Kind::none;
  Over over = Over::each_head;
  // Used with each_head. If true, weights are [heads, head_size], one row per head; if false,
  // [head_size], shared by all heads.
  bool own_weights = false;
  bool bias = false;
  bool unit_offset = false;  // as in NormOptions
  double epsilon = 1e-5;

  bool centered() const { return kind == Kind::layer; }
  bool operator==(const QueryKeyNormOptions&) const = default;
};

struct AttentionOptions {
  int64_t layer = 0;  // index of the block, and of the layer in a KeyValueStore
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; query head h uses K/V head h * kv_heads / heads
  int64_t head_size = 0;
  int64_t value_size = 0;  // features of a value head; 0: head_size
  double scale = 0;        // of the scores; usually 1 / sqrt(head_size)
  double dropout = 0;
  QueryKeyNormOptions query_key_norm{};
  ops::RotaryOptions rotary{};
  // Mask and changes of the scores: as in ops::AttentionOptions, where not said otherwise.
  bool causal = true;
  int64_t window = 0;   // sliding window, in positions; 0: none
  double soft_cap = 0;  // soft cap of the scores; 0: no cap
  double alibi = 0;     // factor on ALiBi's slopes; 0: no ALiBi
  // Attention sinks: parameter NAME.sinks [heads], one logit per query head. nullopt: no sinks.
  std::optional<Initializer> sinks{};

  int64_t size_of_value() const { return value_size > 0 ? value_size : head_size; }
};

// Multi-head latent attention, MLA (DeepSeek-AI 2024, "DeepSeek-V2", 2.1). Linear layers project
// each token down to a few features, the latents; these are normed and projected up to the heads of
// queries, keys and values. A query or key head has `rotary` features with rotary embedding,
// followed by `plain` features without it. All key heads have the same rotary features. A
// KeyValueStore keeps, of each position, the latents and the rotary features instead of keys and
// values of heads, unless "key_value_up" has an adapter.
//
// Parameters: "query_down" [query_rank, hidden], "query_latent_norm" and "query_up" [heads *
// (rotary + plain), query_rank], or, if query_rank is 0, "query" [heads * (rotary + plain),
// hidden]; "key_value_down" [key_value_rank + rotary, hidden], "key_value_latent_norm",
// "key_value_up" [heads * (plain + value), key_value_rank].
struct LatentAttentionOptions {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t query_rank = 0;  // 0: queries are projected from the activation, without latents
  int64_t key_value_rank = 0;
  int64_t rotary = 0;
  int64_t plain = 0;
  int64_t value = 0;
  bool bias = false;  // of the down-projections
  double norm_epsilon = 1e-6;
  Initializer initializer = Initializer::normal(0.02);
  // Options of the attention itself. The builder sets its heads, kv_heads, head_size and value_size
  // from the fields above.
  AttentionOptions attention{};

  int64_t head_size() const { return rotary + plain; }  // of queries and keys
};

// The attention heads on this rank.
struct LocalHeads {
  Range queries;
  Range keys;  // and values
};

// The adapters of a model; all its other weights are frozen, except `trained`. A layer NAME with a
// low-rank adapter (low_rank_adapter.h) has parameters NAME.lora_A.weight (A) and
// NAME.lora_B.weight (B), and with `magnitudes` (DoRA) NAME.lora_magnitude_vector.weight,
// [out_features]; an embedding has NAME.lora_embedding_A.weight and NAME.lora_embedding_B.weight.
// With virtual tokens (ops::VirtualTokens), an attention NAME has NAME.virtual_keys.weight and
// NAME.virtual_values.weight, each [tokens, kv_heads * size].
struct AdapterOptions {
  int64_t virtual_tokens = 0;  // 0: none
  Initializer virtual_initializer = Initializer::normal(1);
  int64_t rank = 0;
  double scale = 1;
  double dropout = 0;
  bool magnitudes = false;
  // Whether the A and B that training starts from are kept in frozen parameters
  // NAME.lora_A_start.weight (A) and NAME.lora_B_start.weight (-B). No layer computes with these.
  bool keeps_start = false;
  // Parameters of the model, by full name, that are trained together with the adapters.
  std::set<std::string> trained = {};
  // Storage type of the frozen weights of the blocks' linear layers; nullopt: not packed.
  std::optional<ops::PackedType> base = std::nullopt;
  // Takes the full name of a linear layer, embedding or head ("blocks.3.query"). Returns the name
  // of the module of the model's files that contains the layer, or nullopt if the layer has no
  // adapter. Parts of a fused layer with the same module share A.
  std::function<std::optional<std::string>(const std::string& product)> adapted;
  // Rank and scale of the modules for which these are not `rank` and `scale`, by the name that
  // `adapted` returns.
  struct Size {
    int64_t rank = 0;
    double scale = 1;
  };
  std::map<std::string, Size> sizes = {};

  Size size_of(const std::string& module) const {
    const auto found = sizes.find(module);
    return found == sizes.end() ? Size{rank, scale} : found->second;
  }
};

// DoRA magnitudes of an adapter. `initial` returns their initial values, output_norms() of the
// adapted weight; see there which ranks must call it. Call it only on ranks whose stage has the
// weights.
struct Magnitudes {
  ParameterHandle parameter;
  std::function<at::Tensor(LayerScope& scope)> initial;
};

// Parameters of an attention; each rank has those of its heads.
struct AttentionParameters {
  ParameterHandle sinks{};  // [query heads on this rank]; empty handle: no sinks
  // [virtual tokens, K/V heads on this rank * size] each; empty handles: no virtual tokens.
  ParameterHandle virtual_keys{}, virtual_values{};
};

// A part of a model that is on one pipeline stage: everything before the blocks (embedding), one
// block, or everything after the blocks (head).
struct ModelPart {
  enum class Kind { embedding, block, head };
  Kind kind = Kind::embedding;
  int64_t block = 0;
};
// Returns the pipeline stage of a part.
using StageOf = std::function<int(const ModelPart&)>;

class Builder {
 public:
  virtual ~Builder() = default;

  // Freezes the weights and adds adapters to the layers that `options` selects. Call it before any
  // layer is made.
  virtual void adapt(AdapterOptions options) = 0;

  // Layers made after this call belong to `part`.
  virtual void begin_part(const ModelPart& part) = 0;

  virtual std::unique_ptr<Embedding> embedding(const std::string& name,
                                               const EmbeddingOptions& options) = 0;
  // options.vocabulary: number of rows of the table, with those before first_row.
  virtual std::unique_ptr<PositionEmbedding> position_embedding(
      const std::string& name, const EmbeddingOptions& options) = 0;
  virtual std::unique_ptr<Linear> linear(const std::string& name, const LinearOptions& options) = 0;
  virtual std::unique_ptr<Linear> fused_linear(const FusedLinearOptions& options) = 0;
  virtual std::unique_ptr<LatentAttention> latent_attention(
      const std::string& name, const LatentAttentionOptions& options) = 0;
  virtual std::unique_ptr<Experts> experts(const std::string& name,
                                           const ExpertsOptions& options) = 0;
  virtual std::unique_ptr<GatedActivation> gated_activation(const std::string& name,
                                                            ops::Activation activation) = 0;
  virtual std::unique_ptr<Norm> rms_norm(const std::string& name, const NormOptions& options) = 0;
  virtual std::unique_ptr<Norm> layer_norm(const std::string& name, const NormOptions& options) = 0;
  virtual std::unique_ptr<Dropout> dropout(const std::string& name, double probability) = 0;
  virtual std::unique_ptr<Attention> attention(const std::string& name,
                                               const AttentionOptions& options) = 0;
  // `options` must not be causal and must not use a window, ALiBi, rotary embedding or norms.
  virtual std::unique_ptr<CrossAttention> cross_attention(const std::string& name,
                                                          const AttentionOptions& options) = 0;
  virtual std::unique_ptr<VocabularyHead> vocabulary_head(const std::string& name,
                                                          const VocabularyHeadOptions& options) = 0;
  // Makes a head that shares the table of the embedding `embedding_name`; that embedding must
  // exist.
  virtual std::unique_ptr<VocabularyHead> tied_vocabulary_head(
      const std::string& name, const std::string& embedding_name,
      const VocabularyHeadOptions& options) = 0;

  virtual const ParameterList& parameters() const = 0;
  // Number of virtual tokens that AdapterOptions adds before each sequence, in steps with
  // StepContext::adapted; 0: none.
  virtual int64_t virtual_tokens() const = 0;
  // Magnitudes of all adapters, in the order in which the model uses them.
  virtual const std::vector<Magnitudes>& magnitudes() const = 0;

  // While a Scope lives, `name` and a dot precede the names of the layers that are made. Scopes
  // nest: with "blocks.3", the weight of layer "query" is "blocks.3.query.weight".
  class Scope {
   public:
    Scope(Builder& builder, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
  };
  [[nodiscard]] Scope scope(const std::string& name) { return Scope(*this, name); }

 protected:
  virtual void enter(const std::string& name) = 0;
  virtual void leave() = 0;
};

}  // namespace colossal::nn
