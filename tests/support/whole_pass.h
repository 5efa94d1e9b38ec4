// Runs a model that is not divided into pipeline stages from tokens to its head for tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/models/model.h"

namespace colossal {

inline at::Tensor states_of(models::Model& model, const at::Tensor& tokens,
                            const nn::StepContext& context) {
  return model
      .run_blocks({0, model.num_blocks()}, model.text_inputs().embed(tokens, context), context)
      .output();
}

// TokenHead::logits() and TokenHead::loss_sum().
inline at::Tensor logits_of(models::Model& model, const at::Tensor& tokens,
                            const nn::StepContext& context, const at::Tensor& wanted = {}) {
  return model.token_head().logits(states_of(model, tokens, context), context, wanted);
}
inline at::Tensor loss_sum_of(models::Model& model, const at::Tensor& tokens,
                              const at::Tensor& labels, const nn::StepContext& context) {
  return model.token_head().loss_sum(states_of(model, tokens, context), labels, context);
}

}  // namespace colossal
