// Runs a model that is not divided into pipeline stages from tokens to its head for tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/models/model.h"

namespace colossal {

// Return the states after the last block.
inline at::Tensor states_after(models::Model& model, const nn::BlockState& before,
                               const nn::StepContext& context) {
  return model.run_blocks({0, model.num_blocks()}, before, context).output();
}
inline at::Tensor states_of(models::Model& model, const models::TokenInputs& inputs,
                            const nn::StepContext& context) {
  return states_after(model, model.text_inputs().embed(inputs, context), context);
}
inline at::Tensor states_of(models::Model& model, const at::Tensor& tokens,
                            const nn::StepContext& context) {
  return states_of(model, models::TokenInputs{tokens}, context);
}
inline at::Tensor states_of(models::Model& model, const data::Batch& batch,
                            const nn::StepContext& context) {
  return states_after(model, model.inputs(batch, context), context);
}

// TokenHead::logits() and TokenHead::loss_sum(). inputs: tokens, models::TokenInputs or a batch.
template <typename Inputs>
at::Tensor logits_of(models::Model& model, const Inputs& inputs, const nn::StepContext& context,
                     const at::Tensor& wanted = {}) {
  return model.token_head().logits(states_of(model, inputs, context), context, wanted);
}
template <typename Inputs>
at::Tensor loss_sum_of(models::Model& model, const Inputs& inputs, const at::Tensor& labels,
                       const nn::StepContext& context) {
  return model.token_head().loss_sum(states_of(model, inputs, context), labels, context);
}

}  // namespace colossal
