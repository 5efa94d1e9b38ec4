// The Llama family (H. Touvron et al. 2023; Qwen2), as transformers computes it: rotary positions,
// grouped-query attention, SwiGLU, RMS norm before each. Single-process code: the builder decides
// how layers run.
#pragma once

#include <memory>

#include "colossal/models/language_model.h"
#include "colossal/models/llama/config.h"
#include "colossal/nn/blocks.h"
#include "colossal/nn/builder.h"

namespace colossal::models::llama {

class Model : public LanguageModel {
 public:
  Model(nn::Builder& build, const Config& config);

  at::Tensor loss_sum(const at::Tensor& tokens, const at::Tensor& labels,
                      const nn::StepContext& context) override;
  at::Tensor logits(const at::Tensor& tokens, const nn::StepContext& context,
                    bool last_only) override;

 private:
  // Activations after the last norm.
  at::Tensor hidden(const at::Tensor& tokens, const nn::StepContext& context);

  std::unique_ptr<nn::Embedding> token_embedding_;
  nn::Blocks blocks_;
  std::unique_ptr<nn::Norm> final_norm_;
  std::unique_ptr<nn::VocabularyHead> head_;
};

}  // namespace colossal::models::llama
