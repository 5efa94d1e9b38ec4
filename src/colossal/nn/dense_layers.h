// The layers that DenseBuilder makes. DenseBuilder does not shard models. The layers implement the
// interfaces of layers.h, which describes the functions that are marked `override` here.
// Activations are [batch, sequence, features]. Builders that shard a model use some of these
// layers, too, for a rank's part of the attention heads or of the features.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/attention_heads.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/head_options.h"
#include "colossal/nn/key_value_store.h"
#include "colossal/nn/low_rank_adapter.h"
#include "colossal/nn/norm_parts.h"
#include "colossal/nn/token_table.h"
#include "colossal/nn/vocabulary_head_parts.h"
#include "colossal/ops/attention/attention.h"
#include "colossal/ops/device_table.h"

namespace colossal::nn {

class DenseEmbedding : public Embedding {
 public:
  DenseEmbedding(TokenTable table, EmbeddingAdapter adapter)
      : table_(std::move(table)), adapter_(std::move(adapter)) {}
  at::Tensor forward(const at::Tensor& tokens, const StepContext& context) override;

 private:
  at::Tensor look_up(const at::Tensor& tokens) const;

  TokenTable table_;
  EmbeddingAdapter adapter_;
};

// Returns the bucket of a key `distance` positions after the query (RelativeBiasOptions).
int64_t relative_bucket(int64_t distance, const RelativeBiasOptions& options);

class DenseRelativeBias : public RelativeBias {
 public:
  // table: [buckets, query heads on this rank].
  DenseRelativeBias(ParameterHandle table, const RelativeBiasOptions& options);
  at::Tensor forward(const StepContext& context) override;

 private:
  ParameterHandle table_;
  ops::DeviceTable buckets_;  // [2 * max_distance + 1] int64: the bucket of each distance
};

// Returns the row indices of `positions` in a position table in which position 0 has row
// `first_row`.
at::Tensor rows_of_positions(const at::Tensor& positions, int64_t first_row);

class DensePositionEmbedding : public PositionEmbedding {
 public:
  DensePositionEmbedding(ParameterHandle weight, int64_t first_row, LocalTokens tokens)
      : weight_(std::move(weight)), first_row_(first_row), tokens_(std::move(tokens)) {}
  at::Tensor forward(const StepContext& context) override;

 private:
  ParameterHandle weight_;
  int64_t first_row_;
  LocalTokens tokens_;
};

class DenseLinear : public Linear {
 public:
  // bias: empty handle if there is none. order: of the weight's dims.
  DenseLinear(ParameterHandle weight, ParameterHandle bias, WeightOrder order,
              LowRankAdapter adapter)
      : weight_(std::move(weight)),
        bias_(std::move(bias)),
        order_(order),
        adapter_(std::move(adapter)) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  ParameterHandle weight_;
  ParameterHandle bias_;
  WeightOrder order_;
  LowRankAdapter adapter_;
};

// A linear layer with dropout of its input (LinearOptions::input_dropout).
class LinearOfDropout : public Linear {
 public:
  LinearOfDropout(std::unique_ptr<Dropout> dropout, std::unique_ptr<Linear> linear)
      : dropout_(std::move(dropout)), linear_(std::move(linear)) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    return linear_->forward(dropout_->forward(x, context), context);
  }

 private:
  std::unique_ptr<Dropout> dropout_;
  std::unique_ptr<Linear> linear_;
};

// A linear layer that consists of several products of the same input. The output has the products'
// outputs, concatenated along the last dim in the order of `weights`.
class DenseFusedLinear : public Linear {
 public:
  // weights: [out, in] each, where `out` may differ. biases: one per weight, or empty if there are
  // none.
  DenseFusedLinear(std::vector<ParameterHandle> weights, std::vector<ParameterHandle> biases,
                   LowRankAdapter adapter)
      : weights_(std::move(weights)), biases_(std::move(biases)), adapter_(std::move(adapter)) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  std::vector<ParameterHandle> weights_;
  std::vector<ParameterHandle> biases_;
  LowRankAdapter adapter_;
};

class DenseGatedActivation : public GatedActivation {
 public:
  DenseGatedActivation(std::string name, ops::Activation activation)
      : name_(std::move(name)), activation_(activation) {}
  at::Tensor forward(const at::Tensor& gate_up, const StepContext& context) override;

 private:
  std::string name_;  // full name of the layer
  ops::Activation activation_;
};

class DenseNorm : public Norm {
 public:
  explicit DenseNorm(NormParts parts) : parts_(std::move(parts)) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;
  std::pair<at::Tensor, at::Tensor> add_forward(const at::Tensor& x, const at::Tensor& branch,
                                                const StepContext& context) override;

 private:
  NormParts parts_;
};

class DenseDropout : public Dropout {
 public:
  // stream: name of the random number stream of the mask, a different one for each layer.
  // tokens: those of which x has activations, and its first feature.
  DenseDropout(std::string stream, double probability, LocalTokens tokens = {})
      : stream_(std::move(stream)), probability_(probability), tokens_(std::move(tokens)) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  std::string stream_;
  double probability_;
  LocalTokens tokens_;
};

class DenseAttention : public Attention {
 public:
  //   stream      full name of the layer; also the name of its random number stream for dropout
  //   options     options of the attention, with the numbers of all its heads on all ranks
  //   here        the heads for which the layer computes attention: all heads on this rank, or some
  //               of them if ranks of sp compute the others (ulysses)
  //   parameters  for all heads on this rank, also heads that are not in `here`
  DenseAttention(std::string stream, const AttentionOptions& options, const LocalHeads& here,
                 const AttentionParameters& parameters);
  at::Tensor forward(const at::Tensor& qkv, const at::Tensor& relative_bias,
                     const StepContext& context) override;

 protected:
  // Computes attention in forward passes without a KV cache. queries, keys and values: [batch,
  // heads, sequence, size] each, for the positions of each sequence that are on this rank. Returns
  // [batch, query heads, sequence, value_size].
  virtual at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const ops::AttentionOptions& options,
                            const StepContext& context) const;

 private:
  // Selects the K/V heads of `tokens` that this rank's query heads attend to.
  ops::VirtualTokens select_used_kv_heads(const ops::VirtualTokens& tokens) const;
  // Returns the tokens of the forward pass whose per-request adapters have virtual tokens for this
  // layer, with these virtual tokens.
  std::vector<RowsWithVirtualTokens> rows_with_virtual_tokens(const StepContext& context) const;

  int64_t layer_;  // index in the KeyValueStore
  AttentionHeads heads_;
  HeadOptions head_options_;
};

// For cross-attention if several ranks hold parts of each sequence (parallel.sp > 1).
struct DividedSequences {
  // Returns the positions of a sequence of `sequence` tokens that this rank holds, as ascending
  // ranges.
  std::function<std::vector<Range>(int64_t sequence)> positions;
  // Returns the keys and values of the whole memory, [batch, positions, features], in the order of
  // positions. key_value: at this rank's positions, in the order of `positions`. sequence: number
  // of positions of the whole memory. Differentiable. Collective over the ranks that share the
  // memory.
  std::function<at::Tensor(const at::Tensor& key_value, int64_t sequence)> gather;
};

class DenseCrossAttention : public CrossAttention {
 public:
  // The first four parameters are those of DenseAttention's constructor. divided: nullopt if this
  // rank holds whole sequences. Throws InternalError if `options` are causal or have a window,
  // ALiBi, rotary embedding or norms of queries and keys.
  DenseCrossAttention(std::string stream, const AttentionOptions& options, const LocalHeads& here,
                      const AttentionParameters& parameters,
                      std::optional<DividedSequences> divided = std::nullopt);
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key_value,
                     const StepContext& context) override;
  at::Tensor forward_stored(const at::Tensor& query, const StepContext& context) override;

 private:
  // Computes the attention of queries [batch, heads, tokens, head_size]; returns the same shape.
  at::Tensor attend(const at::Tensor& queries, const at::Tensor& key_value,
                    const ops::AttentionOptions& options) const;
  // Returns context.tokens().documents of this rank's queries; all 0 if there are none.
  at::Tensor query_documents(const StepContext& context) const;

  const TokenGrid& memory(const StepContext& context) const { return context.grids[memory_stack_]; }

  int64_t layer_;  // index in the MemoryStore
  size_t memory_stack_;
  AttentionHeads heads_;
  HeadOptions head_options_;
  std::optional<DividedSequences> divided_;
};

class DenseVocabularyHead : public VocabularyHead {
 public:
  explicit DenseVocabularyHead(VocabularyHeadParts parts) : parts_(std::move(parts)) {}
  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const StepContext& context) override;
  at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels, double temperature,
                               const StepContext& context) override;
  at::Tensor logits_here(const at::Tensor& x, double temperature,
                         const StepContext& context) override {
    return parts_.logits_here(x.flatten(0, 1), context, temperature);
  }
  at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                         double temperature, const StepContext& context) override;
  at::Tensor scores(const at::Tensor& x, const StepContext& context) override {
    return logits(x, context, /*wanted=*/{});
  }
  at::Tensor logits(const at::Tensor& x, const StepContext& context,
                    const at::Tensor& wanted) override;
  at::Tensor gathered_states(const at::Tensor& x, const StepContext&,
                             const at::Tensor& wanted) override {
    return wanted_rows(x.flatten(0, 1), wanted);
  }

 private:
  VocabularyHeadParts parts_;
};

}  // namespace colossal::nn
