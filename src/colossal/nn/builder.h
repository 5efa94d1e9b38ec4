// The interface by which models make their layers, and the options of the layers. A Builder makes
// layers and registers their parameters by name. DenseBuilder makes unsharded layers; the builders
// of parallel/ make sharded layers. A model works with every builder.
//
// Layers have names. The name that a model passes for a layer is relative to the open Scopes
// (Builder::scope()): in Scope "blocks.3", "query" names the layer with the full name
// "blocks.3.query". In the comments below, NAME is the full name of a layer. A name "in the
// builder's current scope" is relative to the open Scopes, too.
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
#include "colossal/nn/activation_part.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/model_part.h"
#include "colossal/nn/router.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/attention/rotary.h"
#include "colossal/ops/clamped_gate.h"
#include "colossal/ops/product/packed_weight.h"

namespace colossal::nn {

// A linear layer. Parameters: NAME.weight in the given order of dims, and NAME.bias [out_features].
struct LinearOptions {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = true;
  WeightOrder order = WeightOrder::out_in;
  Initializer initializer = Initializer::normal(0.02);  // of the weight; the bias starts as zeros
  double input_dropout = 0;  // dropout probability of the input; its stream is NAME.input_dropout
};

// Several linear layers with the same input, whose outputs are concatenated. Each part has its own
// parameters: weight [out_features, in_features] and bias [out_features].
struct FusedLinearOptions {
  struct Part {
    std::string name;  // within the open Scopes, as of a linear layer of its own
    int64_t out_features = 0;
    std::optional<Initializer> initializer{};  // nullopt: FusedLinearOptions::initializer
  };
  int64_t in_features = 0;
  std::vector<Part> parts;  // in the order of the concatenated outputs
  bool bias = true;         // for all parts
  Initializer initializer = Initializer::normal(0.02);
};

// A mixture-of-experts layer whose experts are gated MLPs. The parameters of its router are, in the
// builder's current scope, "router.weight" [experts, hidden] and, if the options of the same names
// in `router` are set, "router.bias" and "router.correction_bias", each [experts]. The parameters
// of the experts are stacked:
//   without clamped_gate:        NAME.gate.weight, NAME.up.weight  [experts, inner, hidden]
//                                NAME.down.weight                  [experts, hidden, inner]
//   with clamped_gate (GPT-OSS): NAME.gate_up.weight  [experts, hidden, 2 * inner]
//                                NAME.gate_up.bias    [experts, 2 * inner]
//                                NAME.down.weight     [experts, inner, hidden]
//                                NAME.down.bias       [experts, hidden]
// In gate_up, columns of the gate and of the up-projection alternate.
struct ExpertsOptions {
  int64_t layer = 0;   // index of the block
  int64_t hidden = 0;  // features of the layer's input and output
  int64_t inner = 0;   // inner features of one expert
  RouterOptions router{};
  ops::Activation activation = ops::Activation::silu;
  std::optional<ops::ClampedGate> clamped_gate{};            // replaces `activation`
  Initializer initializer = Initializer::normal(0.02);       // of gate, up and router
  Initializer down_initializer = Initializer::normal(0.02);  // of down
};

// A layer norm or an RMS norm. Parameters: NAME.weight and NAME.bias, each [features].
struct NormOptions {
  int64_t features = 0;
  double epsilon = 1e-5;
  bool weight = true;        // false: the norm has neither weight nor bias
  bool bias = true;          // whether a layer norm has a bias; an RMS norm never has one
  bool unit_offset = false;  // true: multiplies by 1 + weight, and the weight starts as 0 (Gemma)
};

// An embedding table. Parameter: NAME.weight [vocabulary, features].
struct EmbeddingOptions {
  int64_t vocabulary = 0;  // number of rows
  int64_t features = 0;
  Initializer initializer = Initializer::normal(0.02);
  int64_t first_row = 0;  // only for position embeddings: the table row of position 0
};

// The output layer of a language model (LM head), with input x: logits = soft_cap *
// tanh(logit_scale * (x table^T + bias) / soft_cap).
struct VocabularyHeadOptions {
  EmbeddingOptions table;
  bool bias = false;  // parameter NAME.bias [vocabulary]; a tied head may have a bias of its own
  double logit_scale = 1;
  double soft_cap = 0;  // 0: no cap; logits = logit_scale * (x table^T + bias)
};

// Relative position bias. Parameter: NAME.weight [buckets, heads]. Distances are divided into
// buckets as in T5: each distance below a quarter of the buckets (half of them, if not
// bidirectional) has its own; the others grow logarithmically up to max_distance.
struct RelativeBiasOptions {
  int64_t heads = 0;
  int64_t buckets = 32;
  int64_t max_distance = 128;
  bool bidirectional = true;  // false: keys after the query are in the bucket of distance 0
  Initializer initializer = Initializer::normal(0.02);
};

// Norms of queries and keys, applied after their projection and before the rotary embedding.
// Parameters, in the builder's current scope: "query_norm.weight", "key_norm.weight" and, with
// `bias`, "query_norm.bias", "key_norm.bias".
struct QueryKeyNormOptions {
  enum class Kind { none, rms, layer };  // no norm; RMS norm; layer norm
  enum class Over {
    each_head,  // each head of a token is normalized by itself
    all_heads   // all heads of a token are normalized together; weights are [heads * head_size]
  };
  Kind kind = Kind::none;
  Over over = Over::each_head;
  // Used with each_head. True: weights are [heads, head_size], one row per head. False: weights are
  // [head_size], shared by all heads.
  bool own_weights = false;
  bool bias = false;
  bool unit_offset = false;  // see NormOptions::unit_offset
  double epsilon = 1e-5;

  bool centered() const { return kind == Kind::layer; }  // whether the mean is subtracted
  bool operator==(const QueryKeyNormOptions&) const = default;
};

// Self-attention or cross-attention. The fields after `rotary` change the mask and the scores as in
// ops::AttentionOptions.
struct AttentionOptions {
  int64_t layer = 0;     // index of the block, and of the layer in a KeyValueStore
  int64_t heads = 0;     // query heads, over all ranks
  int64_t kv_heads = 0;  // divides heads; query head h uses K/V head h * kv_heads / heads
  int64_t head_size = 0;
  int64_t value_size = 0;  // features of a value head; 0: head_size
  double scale = 0;        // factor on the scores; 0: 1 / sqrt(head_size)
  double dropout = 0;      // dropout probability of the attention weights
  QueryKeyNormOptions query_key_norm{};
  ops::RotaryOptions rotary{};
  bool causal = true;
  // Sliding window: a query at position p sees only keys in (p - window, p], or in (p - window, p +
  // window) if not causal. 0: no window.
  int64_t window = 0;
  double soft_cap = 0;  // soft cap of the scores; 0: no cap
  double alibi = 0;     // factor on ALiBi's slopes; 0: no ALiBi
  // Of cross-attention: the stack of the model's blocks whose output is the memory.
  size_t memory_stack = 0;
  // Attention sinks: parameter NAME.sinks [heads], one logit per query head. nullopt: no sinks.
  std::optional<Initializer> sinks{};

  int64_t size_of_value() const { return value_size > 0 ? value_size : head_size; }
};

// Multi-head latent attention, MLA (DeepSeek-AI 2024, "DeepSeek-V2", 2.1). Linear layers project
// each token down to a few features, called latents. The latents are normed and projected up to the
// heads of queries, keys and values. A query or key head has `rotary` features with rotary
// embedding, followed by `plain` features without it. All key heads have the same rotary features.
// A KeyValueStore keeps the latents and the rotary features of each position. Only if
// "key_value_up" has an adapter, the store keeps the keys and values of each head, as for other
// attention layers.
//
// The name that latent_attention() gets is that of the attention among the projected heads. The
// linear layers and norms have names of their own, in the builder's current scope. Weights of the
// linear layers:
//   query_down      [query_rank, hidden], and query_up [heads * (rotary + plain), query_rank];
//                   if query_rank is 0, instead: query [heads * (rotary + plain), hidden]
//   key_value_down  [key_value_rank + rotary, hidden]
//   key_value_up    [heads * (plain + value), key_value_rank]
// The RMS norms of the latents are "query_latent_norm" (if query_rank > 0) and
// "key_value_latent_norm".
struct LatentAttentionOptions {
  int64_t hidden = 0;          // features of the layer's input
  int64_t heads = 0;           // query heads, and as many K/V heads, over all ranks
  int64_t query_rank = 0;      // latents of the queries; 0: queries are projected without latents
  int64_t key_value_rank = 0;  // latents of keys and values together
  int64_t rotary = 0;          // features with rotary embedding of a query or key head
  int64_t plain = 0;           // features without rotary embedding of a query or key head
  int64_t value = 0;           // features of a value head
  bool bias = false;           // whether the down-projections have biases
  double norm_epsilon = 1e-6;
  Initializer initializer = Initializer::normal(0.02);  // of the linear layers
  // Options of the attention itself. The builder replaces heads, kv_heads, head_size and value_size
  // by values computed from the fields above.
  AttentionOptions attention{};

  int64_t head_size() const { return rotary + plain; }  // features of a query or key head
};

// The attention heads on this rank, as ranges of global head indices.
struct LocalHeads {
  Range queries;
  Range keys;  // K/V heads
};

// The adapters of a model. Weights of the model itself are then frozen, except those in `trained`.
// r is the rank of a low-rank adapter (not a rank of a group). Parameters of the adapters:
//   linear layer or head   NAME.lora_A.weight (A) [r, in_features], NAME.lora_B.weight (B)
//                          [out_features, r] (low_rank_adapter.h, vocabulary_adapter.h)
//     with `magnitudes`    also NAME.lora_magnitude_vector.weight [out_features]
//   embedding              NAME.lora_embedding_A.weight [r, vocabulary],
//                          NAME.lora_embedding_B.weight [features, r]
//   experts                for each stack, such as NAME.gate: lora_A.weight and lora_B.weight, with
//                          the shapes of expert_adapter.h; gate and up share
//                          NAME.gate.lora_A.weight
//   attention              if virtual_tokens > 0: NAME.virtual_keys.weight, [virtual_tokens,
//                          kv_heads * head_size], and NAME.virtual_values.weight, [virtual_tokens,
//                          kv_heads * value_size] (ops::VirtualTokens)
struct AdapterOptions {
  int64_t virtual_tokens = 0;  // number per attention layer; 0: none
  Initializer virtual_initializer = Initializer::normal(1);
  // r, and the factor on the adapter's term x A^T B^T. `sizes`, below, lists exceptions.
  int64_t rank = 0;
  double scale = 1;
  double dropout = 0;       // dropout probability of the adapter's input x
  bool magnitudes = false;  // DoRA
  // Whether linear layers have two more parameters, which are frozen and which no layer reads:
  // NAME.lora_A_start.weight, which is the initial A, and NAME.lora_B_start.weight, which is the
  // negative of the initial B. PiSSA stores them in the adapter's files, since the adapter's change
  // of the original weight is scale * (B A - initial B * initial A).
  bool keeps_start = false;
  // Parameters of the model itself, by full name, that are trained together with the adapters.
  std::set<std::string> trained = {};
  // Storage type of the frozen weights of linear layers and experts, except "key_value_up" of
  // latent attention. nullopt: weights are not packed.
  std::optional<ops::PackedType> base = std::nullopt;
  // Takes the full name of a linear layer, stack of experts, embedding or head ("blocks.3.query").
  // Returns the name of the module in the model's files that contains the layer
  // ("model.layers.3.self_attn.q_proj"), or nullopt if the layer has no adapter. Parts of a fused
  // layer with the same module share A. Required, even if no layer has an adapter.
  std::function<std::optional<std::string>(const std::string& product)> adapted;
  struct Size {
    int64_t rank = 0;
    double scale = 1;
  };
  // Exceptions to `rank` and `scale`, by the module name that `adapted` returns.
  std::map<std::string, Size> sizes = {};

  Size size_of(const std::string& module) const {
    const auto found = sizes.find(module);
    return found == sizes.end() ? Size{rank, scale} : found->second;
  }
};

// The DoRA magnitudes of one adapted layer.
struct Magnitudes {
  ParameterHandle parameter;  // [out_features]
  // Computes the values from which training starts, [out_features on this rank]: for each output,
  // the Euclidean norm of its row of the adapted weight (output_norms()). scope: keeps the weights
  // that the call reads on the device until the scope ends (layer_scope.h). Call it only on ranks
  // of the layer's pipeline stage. With a sharded model the call is collective: all ranks that
  // share the weights must call it.
  std::function<at::Tensor(LayerScope& scope)> initial;
};

// Parameters of an attention layer. Each rank has the part of them that belongs to its heads.
struct AttentionParameters {
  ParameterHandle sinks{};  // [query heads on this rank]; empty handle: no sinks
  // [virtual tokens, K/V heads on this rank * head_size] and [virtual tokens, K/V heads on this
  // rank * value_size]. Empty handles: no virtual tokens.
  ParameterHandle virtual_keys{}, virtual_values{};
};

// Returns the pipeline stage of a part.
using StageOf = std::function<int(const ModelPart&)>;

// Makes layers. The names that callers pass are relative to the open Scopes.
class Builder {
 public:
  virtual ~Builder() = default;

  // Freezes the parameters of the layers that are made later, except those in options.trained, and
  // adds adapters to the layers that `options` selects. Call it before any layer is made.
  virtual void adapt(AdapterOptions options) = 0;

  // Layers made after this call belong to `part`.
  virtual void begin_part(const ModelPart& part) = 0;

  // The following functions make layers of which tensor modes have forms of their own, and register
  // their parameters; the comments of the options list the parameters. name: the layer's name
  // within the open Scopes.

  virtual std::unique_ptr<Embedding> embedding(const std::string& name,
                                               const EmbeddingOptions& options) = 0;
  // options.vocabulary: number of rows of the table, including the rows before options.first_row.
  virtual std::unique_ptr<PositionEmbedding> position_embedding(
      const std::string& name, const EmbeddingOptions& options) = 0;
  virtual std::unique_ptr<Linear> linear(const std::string& name, const LinearOptions& options) = 0;
  virtual std::unique_ptr<Linear> fused_linear(const FusedLinearOptions& options) = 0;
  // Makes a linear layer from hidden features to as many hidden features, outside of blocks, such
  // as the transform before a vocabulary head. Ranks divide its output like its input. The weight
  // must be stored as [out, in].
  virtual std::unique_ptr<Linear> hidden_linear(const std::string& name,
                                                const LinearOptions& options) = 0;
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
  virtual std::unique_ptr<RelativeBias> relative_bias(const std::string& name,
                                                      const RelativeBiasOptions& options) = 0;
  // `options` must not be causal and must not use a window, ALiBi, a relative bias, rotary
  // embedding or norms of queries and keys; else InternalError.
  virtual std::unique_ptr<CrossAttention> cross_attention(const std::string& name,
                                                          const AttentionOptions& options) = 0;
  virtual std::unique_ptr<VocabularyHead> vocabulary_head(const std::string& name,
                                                          const VocabularyHeadOptions& options) = 0;
  // Makes a head that shares the table of the embedding layer `embedding_name` (a name within the
  // open Scopes). InternalError if that layer was not made before. options.table: the sizes of the
  // embedding's table; its other fields are not used.
  virtual std::unique_ptr<VocabularyHead> tied_vocabulary_head(
      const std::string& name, const std::string& embedding_name,
      const VocabularyHeadOptions& options) = 0;

  // Layers that are written once for all tensor modes make themselves with the following functions,
  // in their constructors: FeatureScale, LearnedToken, LearnedScalar, PatchEmbedding,
  // PooledProjection. No builder knows them.

  // Registers the parameter NAME.(name) of the layer NAME and returns its handle. InternalError if
  // it was registered before.
  virtual ParameterHandle parameter(const std::string& layer, const std::string& name,
                                    std::vector<int64_t> shape, Initializer initializer,
                                    Placement placement) = 0;
  // Returns the placement of a parameter with a value for each feature of an activation between
  // blocks: this rank's features.
  virtual Placement of_features(int64_t features) const = 0;
  // The same of a parameter of which dim `dim` has the features; the other dims are whole.
  Placement of_features(const std::vector<int64_t>& shape, size_t dim) const;
  // Returns the placement of parameters that every rank holds whole and uses for the same inputs as
  // the other ranks of tp, so that the gradients of these ranks are equal.
  virtual Placement used_alike() const = 0;
  // Describe the part of activations between blocks that this rank has (activation_part.h).
  virtual TokenPart token_part() const = 0;
  virtual LocalTokens local_tokens() const = 0;
  virtual SumOfParts sum_of_parts() const = 0;

  // Returns the parameters of all layers made so far, in the order of their registration.
  virtual const ParameterList& parameters() const = 0;
  // Returns AdapterOptions::virtual_tokens; 0 without adapters.
  virtual int64_t virtual_tokens() const = 0;
  // Returns the DoRA magnitudes of all adapters, in the order in which their layers were made.
  virtual const std::vector<Magnitudes>& magnitudes() const = 0;

  // While a Scope lives, the full name of each new layer begins with `name` and a dot. Example: in
  // scope "blocks.3", the weight of layer "query" is "blocks.3.query.weight". Scopes nest.
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
  // Called when a Scope begins and when it ends.
  virtual void enter(const std::string& name) = 0;
  virtual void leave() = 0;
};

}  // namespace colossal::nn
