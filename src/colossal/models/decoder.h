// The decoder that all families share: token embeddings, blocks on one residual stream, a last norm
// and a head. Single-process code: the builder decides how layers run.
#pragma once

#include <memory>

#include "colossal/models/decoder_config.h"
#include "colossal/models/language_model.h"
#include "colossal/nn/blocks.h"
#include "colossal/nn/builder.h"

namespace colossal::models {

class Decoder : public LanguageModel {
 public:
  Decoder(nn::Builder& build, const DecoderConfig& config);

  at::Tensor embed(const at::Tensor& tokens, const nn::StepContext& context) override;
  int64_t num_blocks() const override { return blocks_.size(); }
  at::Tensor run_blocks(Range blocks, const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor head_loss_sum(const at::Tensor& x, const at::Tensor& labels,
                           const nn::StepContext& context) override;
  at::Tensor head_log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                    const nn::StepContext& context) override;
  at::Tensor head_logits_here(const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor head_divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                              const nn::StepContext& context) override;
  at::Tensor head_scores(const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor head_values(const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor head_logits(const at::Tensor& x, const nn::StepContext& context,
                         const at::Tensor& wanted) override;
  at::Tensor final_states(const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                              const at::Tensor& wanted) override;
  at::Tensor whole_states(const at::Tensor& states, const nn::StepContext& context,
                          const at::Tensor& wanted) override;

 private:
  static void freeze_tables(const nn::Builder& build);
  // Of tokens behind the virtual ones of the model's adapter, unless the step leaves it out.
  nn::StepContext behind_virtual_tokens(const nn::StepContext& context) const;

  int64_t virtual_tokens_;
  double embedding_scale_;
  std::unique_ptr<nn::Embedding> token_embedding_;
  std::unique_ptr<nn::PositionEmbedding> position_embedding_;  // null: the family has none
  std::unique_ptr<nn::Norm> embedding_norm_;                   // null: the family has none
  std::unique_ptr<nn::Dropout> embedding_dropout_;
  // Of a model that guesses for another: of embeddings, and of the other's states. Null: it is
  // none.
  std::unique_ptr<nn::Linear> embedding_product_, state_product_;
  nn::Blocks blocks_;
  std::unique_ptr<nn::Norm> final_norm_;  // null: the family has none
  std::unique_ptr<nn::VocabularyHead> head_;
  std::unique_ptr<nn::VocabularyHead> value_head_;  // null: the model has none
};

}  // namespace colossal::models
