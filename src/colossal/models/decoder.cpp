#include "colossal/models/decoder.h"

namespace colossal::models {

at::Tensor Decoder::embed(const at::Tensor& tokens, const nn::StepContext& context) {
  // In this order, so that gradients of positions come before those of tokens, as parameters do.
  at::Tensor x = token_embedding_->forward(tokens, context);
  if (position_embedding_) x = x + position_embedding_->forward(context);
  return embedding_dropout_ ? embedding_dropout_->forward(x, context) : x;
}

at::Tensor Decoder::run_blocks(Range blocks, const at::Tensor& x, const nn::StepContext& context) {
  return blocks_.forward(blocks, x, context);
}

at::Tensor Decoder::head_loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                  const nn::StepContext& context) {
  return head_->loss_sum(final_norm_->forward(x, context), labels, context);
}

at::Tensor Decoder::head_logits(const at::Tensor& x, const nn::StepContext& context,
                                bool last_only) {
  return head_->logits(final_norm_->forward(x, context), context, last_only);
}

}  // namespace colossal::models
