// The layer interfaces that models are built from. A Builder chooses the implementations.
//
// Only layers know the layout of an activation: its sizes, and which part of it is on this rank. A
// model only passes activations from layer to layer and applies elementwise operators to them. In
// dense layers an activation is [batch, sequence, features]; sharded layers may hold a part of it,
// in other sizes.
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

// Computes act(gate) * up from the output of the fused linear layer of gate and up: [.., 2 *
// features] -> [.., features].
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
  // [.., hidden] -> [.., hidden]. meanwhile: other computation of this rank, which forward() runs
  // once: while rows travel, if there are experts on other ranks. Null: none.
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

// Learned position embeddings. forward() returns those of context.positions, an activation that the
// model adds to the token embedding.
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

// Attention to a memory, for example an encoder's output, without the input and output projections.
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
  // Returns the log-probability of each label, [batch, sequence], in the type of loss_sum(), with
  // logits divided by context.temperature; 0 for ignored labels. Differentiable, with any gradient
  // per token; the backward pass recomputes the logits.
  virtual at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                       const StepContext& context) = 0;
  // Returns this rank's part of the logits, [tokens on this rank, vocabulary rows on this rank],
  // divided by context.temperature. Differentiable.
  virtual at::Tensor logits_here(const at::Tensor& x, const StepContext& context) = 0;
  // Returns, for each token, the divergence of the distribution of logits_here() from a teacher
  // model's, [batch, sequence] in fp32 (fp64 in an fp64 model), as ops::divergence() defines it
  // with `beta`. Differentiable in x. teacher: logits_here() of the teacher, which has this model's
  // vocabulary, layout, batch and temperature.
  virtual at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                 const StepContext& context) = 0;
  // Returns differentiable logits [batch, sequence, vocabulary]. For heads with few table rows, for
  // example of a reward model. All ranks that share the sequences get the same logits and the same
  // gradient.
  virtual at::Tensor scores(const at::Tensor& x, const StepContext& context) = 0;
  // Returns logits [batch, sequence, vocabulary]. If `wanted` is defined ([n] int64 on the host,
  // ascending indices into the flattened batch [batch * sequence]), returns [n, vocabulary] of
  // these tokens only. All ranks that share the tokens get all of the result.
  virtual at::Tensor logits(const at::Tensor& x, const StepContext& context,
                            const at::Tensor& wanted) = 0;
  // Returns x with all features for the tokens `wanted`, which must be defined (see logits()): [n,
  // features]. All ranks that share the tokens get all of the result.
  virtual at::Tensor gathered_states(const at::Tensor& x, const StepContext& context,
                                     const at::Tensor& wanted) = 0;
};

}  // namespace colossal::nn
