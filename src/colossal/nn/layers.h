// The interfaces of which models are made. A Builder decides what stands behind them.
//
// What an activation looks like between layers (its sizes, what part of it is here) is known to
// layers only. A model passes activations from one to the next and does elementwise work on them,
// nothing else. Dense layers use [batch, sequence, features].
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

  // Where a branch joins the residual stream: {x + branch, its norm}.
  virtual std::pair<at::Tensor, at::Tensor> add_forward(const at::Tensor& x,
                                                        const at::Tensor& branch,
                                                        const StepContext& context) {
    const at::Tensor sum = x + branch;
    return {sum, forward(sum, context)};
  }
};

// act(gate) * up, between the fused product of gate and up and the next product: [.., 2 features]
// -> [.., features].
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

// A mixture-of-experts layer: a router and the experts that it chooses among.
class Experts {
 public:
  virtual ~Experts() = default;
  // [.., hidden] -> [.., hidden]. meanwhile: what else this rank has to compute; it runs while rows
  // are under way to experts on other ranks. Null: nothing.
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context,
                             const std::function<void()>& meanwhile) = 0;
};

// The start of a model.
class Embedding {
 public:
  virtual ~Embedding() = default;
  // tokens [batch, sequence] int64 -> activation
  virtual at::Tensor forward(const at::Tensor& tokens, const StepContext& context) = 0;
};

// A learned vector for each position of the context, as an activation to add.
class PositionEmbedding {
 public:
  virtual ~PositionEmbedding() = default;
  virtual at::Tensor forward(const StepContext& context) = 0;
};

// Self-attention between the projections.
class Attention {
 public:
  virtual ~Attention() = default;
  // Fused queries, keys and values, [.., (heads + kv_heads) * head_size + kv_heads * value_size] ->
  // [.., heads * value_size]
  virtual at::Tensor forward(const at::Tensor& qkv, const StepContext& context) = 0;
};

// Self-attention with the products before it, of an activation.
class LatentAttention {
 public:
  virtual ~LatentAttention() = default;
  // [.., hidden] -> [.., heads * value size]
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;
};

// Attention to a memory, such as an encoder's output, between the projections. All queries see all
// of it, or, where StepContext::memory_documents is given, the positions of their own document.
class CrossAttention {
 public:
  virtual ~CrossAttention() = default;
  // Queries [.., heads * head_size], and fused keys and values of the memory [batch, positions, 2 *
  // kv_heads * head_size] -> [.., heads * head_size]
  virtual at::Tensor forward(const at::Tensor& query, const at::Tensor& key_value,
                             const StepContext& context) = 0;
};

// The end of a language model: the product with the vocabulary.
class VocabularyHead {
 public:
  virtual ~VocabularyHead() = default;
  // Sum of the cross-entropies of labels [batch, sequence] (-100: ignored), a scalar in fp32 (fp64
  // in an fp64 model); the logits are never held whole.
  virtual at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                              const StepContext& context) = 0;
  // Log-probability of each label, [batch, sequence] in that type, 0 where it is ignored.
  // Differentiable token by token; the backward pass computes the logits once more.
  virtual at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                       const StepContext& context) = 0;
  // The logits [tokens here, rows here] of which this rank makes its part of all softmaxes, divided
  // by context.temperature. Differentiable.
  virtual at::Tensor logits_here(const at::Tensor& x, const StepContext& context) = 0;
  // Divergence of each token's distribution from that of another model, [batch, sequence] in fp32
  // (fp64 in an fp64 model), as ops::divergence() defines it. Differentiable. teacher:
  // logits_here() of a model with the same vocabulary at the same layout, of the same batch and
  // temperature.
  virtual at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                 const StepContext& context) = 0;
  // Differentiable logits [batch, sequence, vocabulary] of a head with few rows, such as a reward
  // model's. All ranks that share the sequences have the same logits and the same gradient.
  virtual at::Tensor scores(const at::Tensor& x, const StepContext& context) = 0;
  // Logits [batch, sequence, vocabulary]. Where `wanted` is defined, [n] int64 on the host, rising:
  // [n, vocabulary], of these of the batch's tokens, counted row by row. All ranks that share the
  // tokens have them all.
  virtual at::Tensor logits(const at::Tensor& x, const StepContext& context,
                            const at::Tensor& wanted) = 0;
  // What the head multiplies, whole, of the tokens `wanted` as logits() takes them: [n, features].
  // All ranks that share the tokens have them all.
  virtual at::Tensor whole_states(const at::Tensor& x, const StepContext& context,
                                  const at::Tensor& wanted) = 0;
};

}  // namespace colossal::nn
