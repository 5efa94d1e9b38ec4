// Transformer: the implementation of Model for all families but those of two towers: embeddings,
// blocks on one residual stream, final norm and head, as a TransformerConfig says. The code
// contains no parallelism: the nn::Builder makes layers that run on several ranks. build_model() in
// families.h makes a Transformer.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "colossal/models/model.h"
#include "colossal/models/transformer_config.h"
#include "colossal/nn/blocks.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/patch_embedding.h"

namespace colossal::models {

// Model and model_parts.h document the overridden functions.
class Transformer : public Model,
                    private TextInputs,
                    private TokenHead,
                    private ScoreHead,
                    private PixelHead,
                    private ValueHead {
 public:
  // Makes the layers that `config` describes. `build` makes each layer and collects its parameters.
  Transformer(nn::Builder& build, const TransformerConfig& config);

  nn::StepContext context_of(const data::Batch& batch, const nn::StepContext& base,
                             const nn::SequencePart& part) const override;
  nn::BlockState inputs(const data::Batch& batch, const nn::StepContext& context) override;
  int64_t num_blocks() const override { return blocks_.size(); }
  nn::BlockState run_blocks(Range blocks, const nn::BlockState& state,
                            const nn::StepContext& context) override;
  int64_t num_streams() const override { return encoder_layers_ > 0 ? 2 : 1; }
  int64_t num_conditions() const override { return encoder_bias_ ? 2 : 0; }

 private:
  Parts parts() override;
  nn::BlockState embed(const TokenInputs& inputs, const nn::StepContext& context) override;
  at::Tensor encode(const at::Tensor& tokens, const nn::StepContext& context) override;
  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const nn::StepContext& context) override;
  at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels, double temperature,
                               const nn::StepContext& context) override;
  at::Tensor local_logits(const at::Tensor& x, double temperature,
                          const nn::StepContext& context) override;
  at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                         double temperature, const nn::StepContext& context) override;
  at::Tensor logits(const at::Tensor& x, const nn::StepContext& context,
                    const at::Tensor& wanted) override;
  at::Tensor final_states(const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                              const at::Tensor& wanted) override;
  at::Tensor gathered_states(const at::Tensor& states, const nn::StepContext& context,
                             const at::Tensor& wanted) override;
  at::Tensor scores(const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor pixels(const at::Tensor& x, const nn::StepContext& context) override;
  at::Tensor values(const at::Tensor& x, const nn::StepContext& context) override;

  // What follows the lookup of tokens in the embedding: of the model, or of the encoder or the
  // decoder of an encoder-decoder.
  struct InputLayers {
    InputLayers() = default;
    // prefix: begin of the layers' names.
    InputLayers(nn::Builder& build, const TransformerConfig& config, const std::string& prefix);

    std::unique_ptr<nn::PositionEmbedding> positions;  // null if the family has none
    // Embedding of token types, which looks them up like positions; null if the family has none.
    std::unique_ptr<nn::PositionEmbedding> types;
    std::unique_ptr<nn::Norm> norm;  // null if the family has none
    std::unique_ptr<nn::Dropout> dropout;
  };
  // Returns the residual stream that begins with `tokens`. types: TokenInputs::types.
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& types, const InputLayers& layers,
                   const nn::StepContext& context);
  // Applies the norm and dropout after the encoder's last block.
  at::Tensor encoder_output(const at::Tensor& x, const nn::StepContext& context);
  // Freezes the parameters whose names begin with `prefix`.
  static void freeze(const nn::Builder& build, std::string_view prefix);
  // Returns what the head multiplies: `states`, the result of final_states(), after the head
  // transform and dropout, if the model has them.
  at::Tensor head_input(const at::Tensor& states, const nn::StepContext& context);
  // Returns the factors of the scores of each token of an image in those of the whole image,
  // [sequence, 1]: of the scores of head_, and of those of patch_head_ (undefined without one).
  std::pair<at::Tensor, at::Tensor> pooling(const at::Tensor& scores,
                                            const nn::StepContext& context) const;
  // Returns the context with positions and lengths increased by the number of the adapter's virtual
  // tokens; unchanged if there are none, or if context.adapted is false.
  nn::StepContext behind_virtual_tokens(const nn::StepContext& context) const;

  int64_t virtual_tokens_;  // number of virtual tokens of the prefix; 0: the model has no prefix
  double embedding_scale_;
  std::unique_ptr<nn::Embedding> token_embedding_;     // null: the model reads images
  std::optional<nn::PatchEmbedding> patch_embedding_;  // nullopt: the model reads tokens
  InputLayers input_;
  // Of an encoder-decoder with relative positions, else null.
  std::unique_ptr<nn::RelativeBias> encoder_bias_, decoder_bias_;
  InputLayers encoder_input_;                         // of the encoder of an encoder-decoder
  int64_t encoder_layers_;                            // TransformerConfig::encoder_layers
  bool gives_scores_, reconstructs_;                  // whether TransformerConfig says so
  std::optional<nn::PatchEmbeddingOptions> patches_;  // TransformerConfig::patches
  // Of a draft head (EAGLE): two linear layers, of the token embeddings and of the target model's
  // hidden states. The sum of their outputs is the input of the blocks. Null for other models.
  std::unique_ptr<nn::Linear> embedding_product_, state_product_;
  nn::Blocks blocks_;
  std::unique_ptr<nn::Dropout> encoder_final_dropout_, final_dropout_;  // null: no dropout
  std::unique_ptr<nn::Norm> encoder_norm_;  // after the encoder's last block; null: none
  std::unique_ptr<nn::Norm> final_norm_;    // null if the family has none
  // The head transform and the dropouts of a head for scores; null if the model has none.
  std::unique_ptr<nn::Linear> head_transform_;
  std::unique_ptr<nn::Norm> head_norm_;
  std::unique_ptr<nn::Dropout> head_transform_dropout_, score_dropout_;
  ops::Activation head_activation_ = ops::Activation::gelu;  // of the head transform
  std::unique_ptr<nn::VocabularyHead> head_;        // null: the model returns final_states() alone
  std::unique_ptr<nn::VocabularyHead> patch_head_;  // "score_of_patches"; null: none
  TransformerConfig::ScoredPosition scored_position_;  // TransformerConfig::scored_position
  std::unique_ptr<nn::VocabularyHead> value_head_;     // null if the model has none
};

}  // namespace colossal::models
