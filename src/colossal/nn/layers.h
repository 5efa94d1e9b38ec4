// The interfaces of the layers that models are built from. A Builder chooses the implementations.
//
// An activation is a tensor between layers. Unsharded, it is [batch, sequence, features]. With
// sharded layers, a rank holds a part of it, and its sizes differ. Only layers know the layout of
// an activation: its sizes, and which part of it is on this rank. A model only passes activations
// from layer to layer and applies elementwise operators to them. The shapes below are those of
// unsharded activations.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <functional>

#include <memory>
#include <utility>

#include "colossal/nn/parameter.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

class Linear {
 public:
  virtual ~Linear() = default;
  // [.., in_features] -> [.., out_features]
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;
};

class Norm {
 public:
  virtual ~Norm() = default;
  // [.., features] -> [.., features]
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;

  // Adds the output of a branch to the residual stream x. Returns the sum x + branch, then the norm
  // of the sum.
  virtual std::pair<at::Tensor, at::Tensor> add_forward(const at::Tensor& x,
                                                        const at::Tensor& branch,
                                                        const StepContext& context) {
    const at::Tensor sum = x + branch;
    return {sum, forward(sum, context)};
  }
};

// The activation function of a gated MLP.
class GatedActivation {
 public:
  virtual ~GatedActivation() = default;
  // Returns activation(gate) * up, [.., features]. gate_up: the output of the fused linear layer of
  // gate and up, [.., 2 * features].
  virtual at::Tensor forward(const at::Tensor& gate_up, const StepContext& context) = 0;
};

class Dropout {
 public:
  virtual ~Dropout() = default;
  // Returns x unless context.training.
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;
};

// A mixture-of-experts layer: a router and its experts.
class Experts {
 public:
  virtual ~Experts() = default;
  // [.., hidden] -> [.., hidden]. meanwhile: other computation; null: there is none. forward()
  // calls it once. If other ranks have experts of this layer, it calls it while tokens are sent to
  // them.
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context,
                             const std::function<void()>& meanwhile) = 0;
};

// The token embedding.
class Embedding {
 public:
  virtual ~Embedding() = default;
  // Returns the activation [batch, sequence, features]. tokens: [batch, sequence] int64.
  virtual at::Tensor forward(const at::Tensor& tokens, const StepContext& context) = 0;
};

// Learned position embeddings.
class PositionEmbedding {
 public:
  virtual ~PositionEmbedding() = default;
  // Returns the embeddings of context.tokens().positions, an activation that the model adds to the
  // token embedding.
  virtual at::Tensor forward(const StepContext& context) = 0;
};

// A learned bias of attention scores that depends on the distance of query and key, shared by
// several attention layers (C. Raffel et al., "T5", 2020). A table has one number for each head and
// bucket of distances.
class RelativeBias {
 public:
  virtual ~RelativeBias() = default;
  // Returns [query heads on this rank, 2 M + 1] with M = RelativeBiasOptions::max_distance: element
  // [h, M + d] is for a key d positions after the query.
  virtual at::Tensor forward(const StepContext& context) = 0;
};

// Self-attention without its input and output projections.
class Attention {
 public:
  virtual ~Attention() = default;
  // Returns [.., heads * value_size]. qkv: concatenated queries, keys and values, [.., (heads +
  // kv_heads) * head_size + kv_heads * value_size]. relative_bias: the result of
  // RelativeBias::forward(), added to the scores; undefined: none.
  virtual at::Tensor forward(const at::Tensor& qkv, const at::Tensor& relative_bias,
                             const StepContext& context) = 0;
};

// Multi-head latent attention (see LatentAttentionOptions), with its input projections and without
// its output projection.
class LatentAttention {
 public:
  virtual ~LatentAttention() = default;
  // [.., hidden] -> [.., heads * LatentAttentionOptions::value]
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;
};

// Attention to a second sequence, the memory (for example an encoder's output), without the input
// and output projections. The memory is the output of the stack AttentionOptions::memory_stack: if
// the grid of that stack has documents, each query attends only to the memory positions of its own
// document; else it attends to all of them.
class CrossAttention {
 public:
  virtual ~CrossAttention() = default;
  // Returns [.., heads * head_size]. query: [.., heads * head_size]. key_value: concatenated keys
  // and values of the memory, [batch, memory positions, 2 * kv_heads * head_size].
  virtual at::Tensor forward(const at::Tensor& query, const at::Tensor& key_value,
                             const StepContext& context) = 0;
  // The same for the tokens of StepServices::memories, in generation: each attends to the keys and
  // values of its own source there. query: [1, tokens, heads * head_size].
  virtual at::Tensor forward_stored(const at::Tensor& query, const StepContext& context) = 0;
};

// The output layer of a language model (LM head), which multiplies the hidden states x by the
// vocabulary table; VocabularyHeadOptions gives the formula of the logits. In all functions x is
// the activation after the last norm. Labels are [batch, sequence] int64, for all tokens of the
// StepContext even if this rank's part of x has only some of them; -100 means that a position is
// ignored. Where a comment says fp32, the result is fp64 if x is fp64. Logits have the type of x.
// All ranks of tp have the same tokens in their StepContexts and must call the functions together.
// They get the same result, except from logits_here().
class VocabularyHead {
 public:
  virtual ~VocabularyHead() = default;
  // Returns the sum over tokens of the cross-entropy of the labels, a scalar in fp32. Ignored
  // positions add nothing.
  virtual at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                              const StepContext& context) = 0;
  // Returns the log-probability of each label, [batch, sequence] in fp32; 0 for ignored positions.
  // The logits are divided by `temperature`. Differentiable; the backward pass recomputes the
  // logits.
  virtual at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                       double temperature, const StepContext& context) = 0;
  // Returns this rank's part of the logits, [tokens on this rank, vocabulary rows on this rank],
  // divided by `temperature`. Differentiable.
  virtual at::Tensor logits_here(const at::Tensor& x, double temperature,
                                 const StepContext& context) = 0;
  // Returns, for each token, the divergence between this model's distribution (the softmax of its
  // logits divided by `temperature`) and the teacher's: [batch, sequence] in fp32.
  // ops::divergence() defines the divergence and beta. teacher: the result of logits_here() of the
  // teacher model, with the same vocabulary, layout, tokens and temperature. Differentiable in x.
  virtual at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                 double temperature, const StepContext& context) = 0;
  // Returns differentiable logits [batch, sequence, vocabulary], not divided by the temperature.
  // Use it for heads with few table rows, for example of a reward model. All ranks of tp must pass
  // the same gradient to the backward pass.
  virtual at::Tensor scores(const at::Tensor& x, const StepContext& context) = 0;
  // Returns logits [batch, sequence, vocabulary], not divided by the temperature. If `wanted` is
  // defined, returns [n, vocabulary], for these tokens only. wanted: [n] int64 on the host,
  // ascending indices into the flattened tokens [batch * sequence]. For passes without gradients;
  // scores() is for passes with them.
  virtual at::Tensor logits(const at::Tensor& x, const StepContext& context,
                            const at::Tensor& wanted) = 0;
  // Returns the hidden states x of the tokens `wanted` (see logits()), [n, features]. `wanted` must
  // be defined.
  virtual at::Tensor gathered_states(const at::Tensor& x, const StepContext& context,
                                     const at::Tensor& wanted) = 0;
};

}  // namespace colossal::nn
