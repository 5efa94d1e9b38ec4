// Makes the layers that a model asks for by name. DenseBuilder makes those of one process, the
// builders of parallel/ sharded ones. A model never knows which it got.
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

// Several products of one input, their results side by side; each has parameters of its own.
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

// A layer of MLPs with a gate among which a router chooses. Parameters: the router's, see Router;
// NAME.gate.weight and NAME.up.weight, [experts, inner, hidden], and NAME.down.weight, [experts,
// hidden, inner], of all experts each. With a clamped gate: NAME.gate_up.weight, [experts, hidden,
// 2 inner] with gate and up in turns, NAME.down.weight, [experts, inner, hidden], and biases.
struct ExpertsOptions {
  int64_t layer = 0;  // index of the block
  int64_t hidden = 0;
  int64_t inner = 0;  // of one expert
  RouterOptions router{};
  ops::Activation activation = ops::Activation::silu;
  std::optional<ops::ClampedGate> clamped_gate{};  // in place of the activation
  Initializer initializer = Initializer::normal(0.02);
  Initializer down_initializer = Initializer::normal(0.02);
};

// Parameters: "weight" and, of a layer norm, "bias", [features] each.
struct NormOptions {
  int64_t features = 0;
  double epsilon = 1e-5;
  bool weight = true;        // false: no parameters at all
  bool bias = true;          // of a layer norm; an RMS norm has none
  bool unit_offset = false;  // 1 + weight multiplies, and the weight begins with zeros (Gemma)
};

struct EmbeddingOptions {
  int64_t vocabulary = 0;
  int64_t features = 0;
  Initializer initializer = Initializer::normal(0.02);
  int64_t first_row = 0;  // position embeddings: the row of position 0
};

// The end of a language model: logits are soft_cap * tanh(logit_scale * (x table^T + bias) /
// soft_cap).
struct VocabularyHeadOptions {
  EmbeddingOptions table;
  bool bias = false;  // a parameter NAME.bias, [vocabulary], also of a tied head
  double logit_scale = 1;
  double soft_cap = 0;  // 0: none
};

// Norms of queries and keys between their projection and the rotation. Their parameters lie beside
// the attention: "query_norm.weight", "key_norm.weight", and "bias" likewise.
struct QueryKeyNormOptions {
  enum class Kind { none, rms, layer };
  enum class Over {
    each_head,  // over a head's channels
    all_heads   // over those of all heads of a token; weights are [heads * head_size]
  };
  Kind kind = Kind::none;
  Over over = Over::each_head;
  bool own_weights = false;  // with each_head: weights are [heads, head_size], else [head_size]
  bool bias = false;
  bool unit_offset = false;  // as in NormOptions
  double epsilon = 1e-5;

  bool centered() const { return kind == Kind::layer; }
  bool operator==(const QueryKeyNormOptions&) const = default;
};

struct AttentionOptions {
  int64_t layer = 0;  // index of the block, also in a KeyValueStore
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; queries of head h see keys of head h * kv_heads / heads
  int64_t head_size = 0;
  int64_t value_size = 0;  // of a head of values; 0: head_size
  double scale = 0;        // of the scores; usually 1 / sqrt(head_size)
  double dropout = 0;
  QueryKeyNormOptions query_key_norm{};
  ops::RotaryOptions rotary{};
  // Which keys a query sees, and how scores are changed: see ops::AttentionOptions.
  bool causal = true;
  int64_t window = 0;   // sliding window; 0: none
  double soft_cap = 0;  // of the scores; 0: none
  double alibi = 0;     // factor of ALiBi's slopes; 0: no ALiBi
  // Attention sinks: a parameter NAME.sinks, a logit for each query head. Unset: none.
  std::optional<Initializer> sinks{};

  int64_t size_of_value() const { return value_size > 0 ? value_size : head_size; }
};

// Latent attention (DeepSeek-AI 2024, "DeepSeek-V2", 2.1): products of an activation to a few
// features for each token, the latents, from whose norms come the heads of queries, keys and
// values. A head of queries or keys has `rotary` features that turn by their position, which all
// heads of keys share, and then `plain` ones that do not. A key-value store keeps latents and what
// turns, not heads, but where "key_value_up" is adapted.
//
// Parameters: "query_down" [query_rank, hidden], "query_latent_norm", "query_up" [heads * (rotary +
// plain), query_rank], or, where query_rank is 0, "query" [heads * (rotary + plain), hidden];
// "key_value_down" [key_value_rank + rotary, hidden], "key_value_latent_norm", "key_value_up"
// [heads * (plain + value), key_value_rank].
struct LatentAttentionOptions {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t query_rank = 0;  // 0: queries are a product of the activation
  int64_t key_value_rank = 0;
  int64_t rotary = 0;
  int64_t plain = 0;
  int64_t value = 0;
  bool bias = false;  // of the products to latents
  double norm_epsilon = 1e-6;
  Initializer initializer = Initializer::normal(0.02);
  // Of the attention among heads; of heads it says what the fields above say.
  AttentionOptions attention{};

  int64_t head_size() const { return rotary + plain; }  // of queries and keys
};

// The heads of a model that this rank has.
struct LocalHeads {
  Range queries;
  Range keys;  // and values
};

// Adapters; all weights of the model are then frozen. Of low-rank ones (low_rank_adapter.h), beside
// an adapted weight, parameter "lora_A.weight" is A and "lora_B.weight" is B, and with magnitudes
// "lora_magnitude_vector.weight" those of its outputs. Of virtual tokens (ops::VirtualTokens),
// beside an attention, "virtual_keys.weight" and "virtual_values.weight" are [tokens, kv_heads *
// size] each.
struct AdapterOptions {
  int64_t virtual_tokens = 0;  // 0: none
  Initializer virtual_initializer = Initializer::normal(1);
  int64_t rank = 0;
  double scale = 1;
  double dropout = 0;
  bool magnitudes = false;
  // Whether the A and B with which the adapter begins are kept beside it, as frozen parameters
  // "lora_A_start.weight" and "lora_B_start.weight", which products do not use; the latter is -B.
  bool keeps_start = false;
  // Parameters of the model that are trained with the adapters, by full name.
  std::set<std::string> trained = {};
  // How the weights of the blocks' products are held; unset: as numbers.
  std::optional<ops::PackedType> base = std::nullopt;
  // Takes a product's full name ("blocks.3.query") and returns the name of the product in the
  // model's files that contains it, or nothing if it is not adapted. Neighbours in a fused product
  // that get the same name share A.
  std::function<std::optional<std::string>(const std::string& product)> adapted;
  // Of the modules whose rank or scale is another, by what `adapted` returns.
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

// Magnitudes of an adapter, and what they are before training: the norms that outputs then have.
// Call it where the weights are here.
struct Magnitudes {
  ParameterHandle parameter;
  std::function<at::Tensor(LayerScope& scope)> initial;
};

// The parameters of attention itself, for this rank's heads.
struct AttentionParameters {
  ParameterHandle sinks{};  // [query heads here]; empty: none
  // Of an adapter, [virtual tokens, kv heads here * size] each; empty: none.
  ParameterHandle virtual_keys{}, virtual_values{};
};

// A part of a model that one pipeline stage holds whole: all before the blocks, a block, or all
// after the blocks.
struct ModelPart {
  enum class Kind { embedding, block, head };
  Kind kind = Kind::embedding;
  int64_t block = 0;
};
using StageOf = std::function<int(const ModelPart&)>;

class Builder {
 public:
  virtual ~Builder() = default;

  // Freezes all weights and gives products adapters. Called before any layer is made.
  virtual void adapt(AdapterOptions options) = 0;

  // Layers made from here on belong to this part.
  virtual void begin_part(const ModelPart& part) = 0;

  virtual std::unique_ptr<Embedding> embedding(const std::string& name,
                                               const EmbeddingOptions& options) = 0;
  // options.vocabulary: all rows of the table, those before first_row included.
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
  // options must not be causal, use positions or have norms.
  virtual std::unique_ptr<CrossAttention> cross_attention(const std::string& name,
                                                          const AttentionOptions& options) = 0;
  virtual std::unique_ptr<VocabularyHead> vocabulary_head(const std::string& name,
                                                          const VocabularyHeadOptions& options) = 0;
  // A head with the table of the embedding `embedding_name`, which must have been made.
  virtual std::unique_ptr<VocabularyHead> tied_vocabulary_head(
      const std::string& name, const std::string& embedding_name,
      const VocabularyHeadOptions& options) = 0;

  virtual const ParameterList& parameters() const = 0;
  // How many virtual tokens come before those of a sequence, unless a step leaves adapters out.
  virtual int64_t virtual_tokens() const = 0;
  // Of all adapters, in the order in which the model uses them.
  virtual const std::vector<Magnitudes>& magnitudes() const = 0;

  // While it lives, names begin with `name`: "blocks.3" + "up" + "weight".
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
