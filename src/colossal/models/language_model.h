// What the engine and the generator need of a model, whatever its family.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// A model in three parts, which the stages of a pipeline run apart: the embedding, blocks on one
// residual stream, and the head. Tokens and labels are [batch, sequence] int64.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // The residual stream before the first block.
  virtual at::Tensor embed(const at::Tensor& tokens, const nn::StepContext& context) = 0;
  virtual int64_t num_blocks() const = 0;
  // The residual stream after these blocks, from that before them.
  virtual at::Tensor run_blocks(Range blocks, const at::Tensor& x,
                                const nn::StepContext& context) = 0;
  // The head. x: the residual stream after the last block.
  // Returns the sum of the cross-entropies of `labels` (-100: ignored).
  virtual at::Tensor head_loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                   const nn::StepContext& context) = 0;
  // Returns the log-probability of each label, [batch, sequence], 0 where it is ignored.
  virtual at::Tensor head_log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                            const nn::StepContext& context) = 0;
  // For distillation, as nn::VocabularyHead has them: this rank's part of the logits, and the
  // divergence of each token's distribution, [batch, sequence], from a teacher's.
  virtual at::Tensor head_logits_here(const at::Tensor& x, const nn::StepContext& context) = 0;
  virtual at::Tensor head_divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                      const nn::StepContext& context) = 0;
  // For a model that scores texts instead of predicting tokens: returns a number for each position,
  // [batch, sequence], which follows from the tokens up to it.
  virtual at::Tensor head_scores(const at::Tensor& x, const nn::StepContext& context) = 0;
  // The same by the value head of a model that has one beside the vocabulary head.
  virtual at::Tensor head_values(const at::Tensor& x, const nn::StepContext& context) = 0;
  // Returns logits [batch, sequence, vocabulary], or those of the tokens `wanted`, as
  // nn::VocabularyHead does.
  virtual at::Tensor head_logits(const at::Tensor& x, const nn::StepContext& context,
                                 const at::Tensor& wanted) = 0;
  // Its two halves: what the head multiplies, the activation after all else, [batch, sequence,
  // hidden] where it is whole; and the logits of that.
  virtual at::Tensor final_states(const at::Tensor& x, const nn::StepContext& context) = 0;
  virtual at::Tensor logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                                      const at::Tensor& wanted) = 0;
  // Returns final states of the tokens `wanted`, [n, hidden], whole at every layout.
  virtual at::Tensor whole_states(const at::Tensor& states, const nn::StepContext& context,
                                  const at::Tensor& wanted) = 0;

  // All parts, one after the other.
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

// Sizes of a model, for checks and figures before anything is allocated.
struct ModelFacts {
  std::string family;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;   // of queries and keys
  int64_t value_size = 0;  // of a head of values
  // Of a token, in each layer of a key-value store on one rank: heads of keys, as many of values,
  // and the features of all of them.
  int64_t kept_heads = 0;
  int64_t kept_features = 0;
  int64_t vocabulary = 0;
  int64_t positions = 0;     // longest sequence
  int64_t experts = 0;       // of each layer with experts; 0: no layer has any
  int64_t expert_inner = 0;  // features between the products of an expert
  // Rotary frequencies of sequences longer than this depend on their length; 0: none do.
  int64_t fixed_rotary_length = 0;
  int64_t parameters = 0;
  std::vector<int64_t> windows;  // of each layer's attention; 0: it has none
  // FLOPs of forward and backward for each token: 6 for each weight that it is multiplied with, of
  // experts those of the ones that it goes through, the head
  // included, and for the attention of each layer 6 H T, its causal half not discounted; H: heads
  // times the sizes of a query and of a value; T: tokens of a sequence, or of a window that is
  // shorter.
  double flops_per_token(int64_t sequence) const;
  int64_t product_weights = 0;  // weights that a token is multiplied with
};

}  // namespace colossal::models
