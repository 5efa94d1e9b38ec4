// The layer interfaces that models are built from. A Builder chooses the implementations.
//
// Only layers know the layout of an activation: its sizes, and which part of it is on this rank. A
// model passes activations from layer to layer and applies elementwise operators to them, nothing
// else. Dense layers use [batch, sequence, features].
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
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;

  // Adds a branch to the residual stream: returns {x + branch, norm of x + branch}.
  virtual std::pair<at::Tensor, at::Tensor> add_forward(const at::Tensor& x,
                                                        const at::Tensor& branch,
                                                        const StepContext& context) {
    const at::Tensor sum = x + branch;
    return {sum, forward(sum, context)};
  }
};

// Computes act(gate) * up, between the fused linear layer of gate and up and the next layer: [.., 2
// * features] -> [.., features].
class GatedActivation {
 public:
  virtual ~GatedActivation() = default;
  virtual at::Tensor forward(const at::Tensor& gate_up, const StepContext& context) = 0;
};

class Dropout {
 public:
  virtual ~Dropout() = default;
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;
};

// A mixture-of-experts layer: a router and its experts.
class Experts {
 public:
  virtual ~Experts() = default;
  // [.., hidden] -> [.., hidden]. meanwhile: other computation of this rank, run while rows travel
  // to experts on other ranks. Null: nothing.
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context,
                             const std::function<void()>& meanwhile) = 0;
};

// The token embedding.
class Embedding {
 public:
  virtual ~Embedding() = default;
  // tokens [batch, sequence] int64 -> activation
  virtual at::Tensor forward(const at::Tensor& tokens, const StepContext& context) = 0;
};

// Learned position embeddings. forward() returns an activation to add to the token embedding.
class PositionEmbedding {
 public:
  virtual ~PositionEmbedding() = default;
  virtual at::Tensor forward(const StepContext& context) = 0;
};

// Self-attention without its input and output projections.
class Attention {
 public:
  virtual ~Attention() = default;
  // Concatenated queries, keys and values, [.., (heads + kv_heads) * head_size + kv_heads *
  // value_size] -> [.., heads * value_size]
  virtual at::Tensor forward(const at::Tensor& qkv, const StepContext& context) = 0;
};

// Self-attention with its input projections, without its output projection.
class LatentAttention {
 public:
  virtual ~LatentAttention() = default;
  // [.., hidden] -> [.., heads * value size]
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;
};

// Attention to a memory, for example an encoder's output, without its input and output projections.
// Each query attends to the whole memory or, if StepContext::memory_documents is defined, to the
// positions of its own document.
class CrossAttention {
 public:
  virtual ~CrossAttention() = default;
  // Queries [.., heads * head_size], and concatenated keys and values of the memory [batch,
  // positions, 2 * kv_heads * head_size] -> [.., heads * head_size]
  virtual at::Tensor forward(const at::Tensor& query, const at::Tensor& key_value,
                             const StepContext& context) = 0;
};

// The output layer of a language model (LM head): multiplies by the vocabulary table.
class VocabularyHead {
 public:
  virtual ~VocabularyHead() = default;
  // Returns the sum of the cross-entropies of labels [batch, sequence] (-100: ignored), a scalar in
  // fp32 (fp64 in an fp64 model). The logits are never materialized whole.
  virtual at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                              const StepContext& context) = 0;
  // Returns the log-probability of each label, [batch, sequence], in the type of loss_sum(); 0 for
  // ignored labels. Differentiable token by token; the backward pass recomputes the logits.
  virtual at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                       const StepContext& context) = 0;
  // Returns this rank's part of the logits, [tokens on this rank, vocabulary rows on this rank],
  // divided by context.temperature. Differentiable.
  virtual at::Tensor logits_here(const at::Tensor& x, const StepContext& context) = 0;
  // Returns the divergence of each token's distribution from that of a teacher model, [batch,
  // sequence] in fp32 (fp64 in an fp64 model), as ops::divergence() defines it with `beta`.
  // Differentiable. teacher: logits_here() of a model with the same vocabulary, layout, batch and
  // temperature.
  virtual at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                 const StepContext& context) = 0;
  // Returns differentiable logits [batch, sequence, vocabulary], for heads with few rows, for
  // example of a reward model. All ranks that share the sequences get the same logits and the same
  // gradient.
  virtual at::Tensor scores(const at::Tensor& x, const StepContext& context) = 0;
  // Returns logits [batch, sequence, vocabulary]. If `wanted` is defined ([n] int64 on the host,
  // ascending indices into the flattened batch [batch * sequence]), returns [n, vocabulary] of
  // these tokens only. All ranks that share the tokens get all of the result.
  virtual at::Tensor logits(const at::Tensor& x, const StepContext& context,
                            const at::Tensor& wanted) = 0;
  // Returns the head's input with all features for the tokens `wanted` (as in logits()): [n,
  // features]. All ranks that share the tokens get all of the result.
  virtual at::Tensor gathered_states(const at::Tensor& x, const StepContext& context,
                                     const at::Tensor& wanted) = 0;
};

}  // namespace colossal::nn
