// What the engine and the generator need of a model, whatever its family.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "colossal/nn/step_context.h"

namespace colossal::models {

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // Sum of the cross-entropies of `labels` (-100: ignored); tokens, labels [batch, sequence] int64.
  virtual at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& labels,
                              const nn::StepContext& context) = 0;
  // Logits [batch, sequence, vocabulary]; `last_only`: [batch, 1, vocabulary].
  virtual at::Tensor logits(const at::Tensor& tokens, const nn::StepContext& context,
                            bool last_only = false) = 0;
};

// What a family says of itself, for validation and figures, before anything is allocated.
struct ModelFacts {
  std::string family;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t vocabulary = 0;
  int64_t positions = 0;  // longest sequence
  int64_t parameters = 0;
  // FLOPs of forward and backward for each token: 6 for each weight of a product, the head
  // included, and 12 L H T for attention, its causal half not discounted; H: heads times their
  // size.
  double flops_per_token(int64_t sequence) const;
  int64_t product_weights = 0;
};

}  // namespace colossal::models
