// The interface of a model of any family to training and generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// A model in three parts, which pipeline stages can run separately: the embedding, blocks on one
// residual stream, and the head. Tokens and labels are [batch, sequence] int64. Activations x are
// [batch, sequence, hidden], or this rank's shard of them.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // Returns the residual stream before the first block.
  virtual at::Tensor embed(const at::Tensor& tokens, const nn::StepContext& context) = 0;
  virtual int64_t num_blocks() const = 0;
  // Runs `blocks`. x: the residual stream before them; returns the residual stream after them.
  virtual at::Tensor run_blocks(Range blocks, const at::Tensor& x,
                                const nn::StepContext& context) = 0;
  // The head. In all following functions, x is the residual stream after the last block.
  //
  // Returns the sum of the cross-entropies of `labels` (-100: ignored), a scalar. labels: [batch,
  // sequence], the token to predict at each position.
  virtual at::Tensor head_loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                   const nn::StepContext& context) = 0;
  // Returns the log-probability of each label, [batch, sequence]; 0 for ignored labels.
  virtual at::Tensor head_log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                            const nn::StepContext& context) = 0;
  // For distillation; see nn::VocabularyHead for shapes and `beta`. local_logits() returns this
  // rank's shard of the logits. head_divergences() returns, for each token, the divergence from a
  // teacher's distribution, [batch, sequence]; teacher: local_logits() of the teacher.
  virtual at::Tensor local_logits(const at::Tensor& x, const nn::StepContext& context) = 0;
  virtual at::Tensor head_divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                      const nn::StepContext& context) = 0;
  // For reward models: returns a score for each position, [batch, sequence], which depends on the
  // tokens up to this position.
  virtual at::Tensor head_scores(const at::Tensor& x, const nn::StepContext& context) = 0;
  // Returns the outputs of the value head, [batch, sequence], for models that have one.
  virtual at::Tensor head_values(const at::Tensor& x, const nn::StepContext& context) = 0;
  // Returns logits [batch, sequence, vocabulary]; or, if `wanted` [n] is defined, only those of the
  // tokens with these indices, [n, vocabulary]. See nn::VocabularyHead::logits().
  virtual at::Tensor head_logits(const at::Tensor& x, const nn::StepContext& context,
                                 const at::Tensor& wanted) = 0;
  // head_logits() in two parts: final_states() returns the input of the output projection, [batch,
  // sequence, hidden] or this rank's shard of it; logits_of_states() applies the output projection.
  virtual at::Tensor final_states(const at::Tensor& x, const nn::StepContext& context) = 0;
  virtual at::Tensor logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                                      const at::Tensor& wanted) = 0;
  // Returns the final states of the tokens `wanted`, [n, hidden], whole on every rank. states: from
  // final_states(), maybe sharded.
  virtual at::Tensor gathered_states(const at::Tensor& states, const nn::StepContext& context,
                                     const at::Tensor& wanted) = 0;

  // The following run the embedding, all blocks and the head. For a model that is not divided into
  // pipeline stages.
  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& labels,
                      const nn::StepContext& context) {
    return head_loss_sum(hidden(tokens, context), labels, context);
  }
  at::Tensor log_probabilities(const at::Tensor& tokens, const at::Tensor& labels,
                               const nn::StepContext& context) {
    return head_log_probabilities(hidden(tokens, context), labels, context);
  }
  at::Tensor logits(const at::Tensor& tokens, const nn::StepContext& context,
                    const at::Tensor& wanted = {}) {
    return head_logits(hidden(tokens, context), context, wanted);
  }

 private:
  at::Tensor hidden(const at::Tensor& tokens, const nn::StepContext& context) {
    return run_blocks({0, num_blocks()}, embed(tokens, context), context);
  }
};

// Sizes of a model, for validation and estimates before anything is allocated.
struct ModelFacts {
  std::string family;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;   // features per query or key head
  int64_t value_size = 0;  // features per value head
  // KV cache per token and layer: number of key heads (= value heads), and features of all keys and
  // values together.
  int64_t key_value_cache_heads = 0;
  int64_t key_value_cache_features = 0;
  int64_t vocabulary = 0;
  int64_t positions = 0;     // maximum sequence length
  int64_t experts = 0;       // routed experts per layer that has any; 0: none
  int64_t expert_inner = 0;  // intermediate size of an expert
  // In sequences longer than this, rotary frequencies depend on the sequence length; 0: they never
  // do.
  int64_t fixed_rotary_length = 0;
  int64_t parameters = 0;
  std::vector<int64_t> windows;  // sliding window of each layer; 0: none
  // FLOPs per token of a forward and a backward pass: 6 * product_weights, plus 6 H T per layer for
  // attention, not halved for the causal mask. H: heads * (head_size + value_size). T: the smaller
  // of `sequence` and the layer's window.
  double flops_per_token(int64_t sequence) const;
  // Number of weights that multiply each token: with the head; of experts, only the chosen ones.
  int64_t product_weights = 0;
};

}  // namespace colossal::models
