// What a model offers besides its blocks: inputs of texts, and its heads. Model (model.h) says
// which of these a model has.
//
// x: BlockState::output() after the last block. The functions are collective like those of Model.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/nn/block_state.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// What a model reads of texts.
struct TokenInputs {
  at::Tensor tokens;  // [batch, sequence] int64; of an encoder-decoder, the decoder's
  // [batch, sequence] int64: the type of each token, for models that distinguish the texts of a
  // pair by types. Undefined: all tokens have type 0.
  at::Tensor types = {};
  // [batch, source positions on this rank] int64: the tokens of an encoder-decoder's source.
  // Undefined for other models, and with StepServices::memories.
  at::Tensor source = {};
  // A second input of some draft models of speculative decoding: the hidden states of the target
  // model for the preceding tokens, in the layout of activations between blocks. Undefined for all
  // other models.
  at::Tensor target_states = {};
};

// Generation starts with tokens that no data::Batch holds.
class TextInputs {
 public:
  virtual ~TextInputs() = default;

  // Returns the state before the first block.
  virtual nn::BlockState embed(const TokenInputs& inputs, const nn::StepContext& context) = 0;
  // Of an encoder-decoder, in generation: returns the encoder's output for a source text, for
  // nn::MemoryStore. tokens: of the source, [batch, sequence]. context: of the source. With
  // StepServices::memories, embed() and run_blocks() then run the decoder alone.
  virtual at::Tensor encode(const at::Tensor& tokens, const nn::StepContext& context) = 0;
};

// The head that predicts tokens. labels: [batch, sequence] int64, the token to predict at each
// position; -100: ignored. temperature: divides the logits.
class TokenHead {
 public:
  virtual ~TokenHead() = default;

  // Returns the sum of the cross-entropies of all `labels` that are not ignored, a scalar in fp32
  // (fp64 in an fp64 model). All ranks of tp get the same sum.
  virtual at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                              const nn::StepContext& context) = 0;
  // Returns the log-probability of each label, [batch, sequence]; 0 for ignored labels.
  virtual at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                       double temperature, const nn::StepContext& context) = 0;
  // For distillation. local_logits() returns this rank's part of the logits, [tokens on this rank,
  // vocabulary rows on this rank]. divergences() returns for each token the generalized
  // Jensen-Shannon divergence (ops::divergence()) of the model's distribution p and a teacher's q,
  // [batch, sequence]. beta: in [0, 1]; 0 is KL(q || p), 1 is KL(p || q). teacher: local_logits()
  // of the teacher, which has this model's vocabulary and layout.
  virtual at::Tensor local_logits(const at::Tensor& x, double temperature,
                                  const nn::StepContext& context) = 0;
  virtual at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                 double temperature, const nn::StepContext& context) = 0;
  // Returns logits [batch, sequence, vocabulary], or [n, vocabulary] for the tokens `wanted` only.
  // wanted: [n] int64 on the host, ascending indices into the flattened tokens [batch * sequence];
  // undefined: all tokens. All ranks of tp get the whole result.
  virtual at::Tensor logits(const at::Tensor& x, const nn::StepContext& context,
                            const at::Tensor& wanted) = 0;
  // logits() in two parts. final_states() applies the final norm: it returns the input of the
  // output projection, [batch, sequence, hidden] or this rank's shard of it. logits_of_states()
  // applies the output projection to `states`, the result of final_states(). It takes `wanted` and
  // returns logits like logits(); of a model that gives scores, these are the scores.
  virtual at::Tensor final_states(const at::Tensor& x, const nn::StepContext& context) = 0;
  virtual at::Tensor logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                                      const at::Tensor& wanted) = 0;
  // Returns the states of the tokens `wanted`, [n, hidden], whole on all ranks of tp. states:
  // result of final_states(). wanted: as for logits(), but must be defined.
  virtual at::Tensor gathered_states(const at::Tensor& states, const nn::StepContext& context,
                                     const at::Tensor& wanted) = 0;
};

// The head of a reward model, or of a model that gives texts or images classes.
class ScoreHead {
 public:
  virtual ~ScoreHead() = default;

  // Returns the scores, [batch, sequence, TransformerConfig::scores]. The scores at a position
  // depend on the tokens that it attends to; those of the whole text are at
  // TransformerConfig::scored_position. Of images, the scores of a position are its part of those
  // of the whole image, which are their sum.
  virtual at::Tensor scores(const at::Tensor& x, const nn::StepContext& context) = 0;
};

// The head of a model that reconstructs masked images (TransformerConfig::reconstructs).
class PixelHead {
 public:
  virtual ~PixelHead() = default;

  // Returns the pixels of the patch of each token, [batch, sequence, channels * patch * patch], in
  // the order of nn::pixels_of_tokens(). Those of prefix tokens have no meaning.
  virtual at::Tensor pixels(const at::Tensor& x, const nn::StepContext& context) = 0;
};

// The head of a critic, the expected reward (TransformerConfig::value_head).
class ValueHead {
 public:
  virtual ~ValueHead() = default;

  // Returns the value at each position, [batch, sequence].
  virtual at::Tensor values(const at::Tensor& x, const nn::StepContext& context) = 0;
};

// What a model of two towers gives a batch of images and texts (text_tower.h). The vectors are not
// normalized. With sp > 1 each rank has the part of its positions, of which the sum over sp is to
// be taken. All ranks of tp have the same.
struct Embeddings {
  at::Tensor images, texts;  // [batch, TextTower::features]; undefined: the batch has none
  at::Tensor logit_scale;    // []
  at::Tensor logit_bias;     // []; undefined: the model has none
};

// The heads of a model of two towers.
class EmbeddingHead {
 public:
  virtual ~EmbeddingHead() = default;

  // state: after the last block. pooling: data::kPooling of the texts; undefined: there are none.
  virtual Embeddings embeddings(const nn::BlockState& state, const at::Tensor& pooling,
                                const nn::StepContext& context) = 0;
};

}  // namespace colossal::models
