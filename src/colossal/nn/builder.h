// Makes the layers that a model asks for by name. Alone it makes dense ones; parallel/ and
// adapters/ have builders that make sharded and decorated ones. A model never knows which it got.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/router.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/rotary.h"

namespace colossal::nn {

struct LinearOptions {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = true;
  WeightOrder order = WeightOrder::out_in;
  Initializer initializer = Initializer::normal(0.02);
};

// Products of one input whose results lie side by side; each has parameters of its own.
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
// hidden, inner], of all experts each.
struct ExpertsOptions {
  int64_t layer = 0;  // index of the block
  int64_t hidden = 0;
  int64_t inner = 0;  // of one expert
  RouterOptions router{};
  ops::Activation activation = ops::Activation::silu;
  Initializer initializer = Initializer::normal(0.02);
  Initializer down_initializer = Initializer::normal(0.02);
};

// Parameters "weight" and, of a layer norm, "bias", for each feature one.
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
  int64_t first_row = 0;  // of a position embedding: the row of position 0
};

// The end of a language model: logits are soft_cap * tanh(logit_scale * (x table^T + bias) /
// soft_cap).
struct VocabularyHeadOptions {
  EmbeddingOptions table;
  bool bias = false;  // beside the table of a head of its own, or as `name`'s of a tied one
  double logit_scale = 1;
  double soft_cap = 0;  // 0: none
};

// Norms of queries and keys between their projection and the rotation, with parameters of their own
// beside the attention: "query_norm.weight" and "key_norm.weight", and "bias".
struct QueryKeyNormOptions {
  enum class Kind { none, rms, layer };
  enum class Over {
    each_head,  // a head's channels
    all_heads   // those of all heads of a token; a weight is [heads * head_size]
  };
  Kind kind = Kind::none;
  Over over = Over::each_head;
  bool own_weights = false;  // over each head: a weight is [heads, head_size]; else [head_size]
  bool bias = false;
  bool unit_offset = false;  // as NormOptions has it
  double epsilon = 1e-5;

  bool centered() const { return kind == Kind::layer; }
  bool operator==(const QueryKeyNormOptions&) const = default;
};

struct AttentionOptions {
  int64_t layer = 0;  // index of the block: which of a store's layers is ours
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; queries of head h see keys of head h * kv_heads / heads
  int64_t head_size = 0;
  double scale = 0;  // of the scores; usually 1 / sqrt(head_size)
  double dropout = 0;
  QueryKeyNormOptions query_key_norm{};
  ops::RotaryOptions rotary{};
  // What a query sees and what becomes of its scores, see ops::AttentionOptions.
  bool causal = true;
  int64_t window = 0;   // sliding window; 0: none
  double soft_cap = 0;  // of the scores; 0: none
  double alibi = 0;     // factor of ALiBi's slopes; 0: no ALiBi
  // Attention sinks: how the parameter NAME.sinks, a logit for each query head, arises.
  std::optional<Initializer> sinks{};
};

// Those of a model's heads that are here.
struct LocalHeads {
  Range queries;
  Range keys;  // and values
};

// What products that are adapted have beside their weights, which are frozen then as all others of
// the model: see low_rank_adapter.h. A is parameter "lora_A.weight" beside the weight, B
// "lora_B.weight".
struct AdapterOptions {
  int64_t rank = 0;
  double scale = 1;
  double dropout = 0;
  // Of a product, by its full name ("blocks.3.query"): the one of the model's files of which it is
  // all or a part. Nothing: it is not adapted. Products side by side with one answer share A.
  std::function<std::optional<std::string>(const std::string& product)> adapted;
};

// The parameters of an attention itself, of the heads that are here.
struct AttentionParameters {
  ParameterHandle sinks{};  // [query heads here]; empty: none
};

// A part of a model, which one stage of a pipeline holds whole: what comes before its blocks, a
// block, or what comes after them.
struct ModelPart {
  enum class Kind { embedding, block, head };
  Kind kind = Kind::embedding;
  int64_t block = 0;
};
using StageOf = std::function<int(const ModelPart&)>;

class Builder {
 public:
  virtual ~Builder() = default;

  // Before anything is made: freezes all of it, and gives products an adapter.
  virtual void adapt(AdapterOptions options) = 0;

  // What is made from here on belongs to this part.
  virtual void begin_part(const ModelPart& part) = 0;

  virtual std::unique_ptr<Embedding> embedding(const std::string& name,
                                               const EmbeddingOptions& options) = 0;
  // options.vocabulary: the rows of positions, those before the first one included.
  virtual std::unique_ptr<PositionEmbedding> position_embedding(
      const std::string& name, const EmbeddingOptions& options) = 0;
  virtual std::unique_ptr<Linear> linear(const std::string& name, const LinearOptions& options) = 0;
  virtual std::unique_ptr<Linear> fused_linear(const FusedLinearOptions& options) = 0;
  virtual std::unique_ptr<Experts> experts(const std::string& name,
                                           const ExpertsOptions& options) = 0;
  virtual std::unique_ptr<GatedActivation> gated_activation(const std::string& name,
                                                            ops::Activation activation) = 0;
  virtual std::unique_ptr<Norm> rms_norm(const std::string& name, const NormOptions& options) = 0;
  virtual std::unique_ptr<Norm> layer_norm(const std::string& name, const NormOptions& options) = 0;
  virtual std::unique_ptr<Dropout> dropout(const std::string& name, double probability) = 0;
  virtual std::unique_ptr<Attention> attention(const std::string& name,
                                               const AttentionOptions& options) = 0;
  // options: not causal, nothing that goes by positions, no norms.
  virtual std::unique_ptr<CrossAttention> cross_attention(const std::string& name,
                                                          const AttentionOptions& options) = 0;
  virtual std::unique_ptr<VocabularyHead> vocabulary_head(const std::string& name,
                                                          const VocabularyHeadOptions& options) = 0;
  // A head whose table is that of the embedding made before as `embedding_name`.
  virtual std::unique_ptr<VocabularyHead> tied_vocabulary_head(
      const std::string& name, const std::string& embedding_name,
      const VocabularyHeadOptions& options) = 0;

  virtual const ParameterList& parameters() const = 0;

  // While it lives, names are within `name`: "blocks.3" + "up" + "weight".
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
