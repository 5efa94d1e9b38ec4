// LanguageModel: the interface of a model of any family, which training, evaluation and generation
// call. ModelFacts: the sizes of a model. build_model() in families.h makes a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/data/batch.h"
#include "colossal/nn/block_state.h"
#include "colossal/nn/sequence_part.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// A model in three parts, which pipeline stages can run separately: the embedding, the blocks, and
// the head. A decoder or an encoder has one residual stream. In an encoder-decoder
// (TransformerConfig::encoder_layers), blocks of the encoder precede those of the decoder, which
// also attend to the encoder's output; the encoder reads StepContext::source_tokens. batch,
// sequence: the sequences of this rank's micro-batch and the positions of each on this rank
// (StepContext). Tokens and labels are [batch, sequence] int64. Activations are [batch, sequence,
// hidden], or this rank's shard of them.
//
// The functions are collective: the ranks of tp call them in the same order, and so do the ranks of
// sp if they divide the sequences. With ZeRO stage 3 or expert parallelism, all ranks of dp, sp and
// tp with the same pipeline stage do.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // Returns the context of a forward pass over a batch: `base`, which has the seed, the step and
  // whether it is training, with what the batch's fields say. batch: with whole sequences.
  virtual nn::StepContext context_of(const data::Batch& batch, const nn::StepContext& base,
                                     const nn::SequencePart& part) const = 0;
  // Returns the state before the first block. batch: this rank's part of a batch.
  virtual nn::BlockState inputs(const data::Batch& batch, const nn::StepContext& context) = 0;
  // The same for tokens. tokens: of an encoder-decoder, the decoder's.
  virtual nn::BlockState embed(const at::Tensor& tokens, const nn::StepContext& context) = 0;
  // Of an encoder-decoder, in generation: returns the encoder's output for a source text, for
  // nn::MemoryStore. tokens: of the source, [batch, sequence]. context: of the source. With
  // StepContext::memories, embed() and run_blocks() then run the decoder alone.
  virtual at::Tensor encode(const at::Tensor& tokens, const nn::StepContext& context) = 0;
  virtual int64_t num_blocks() const = 0;
  // Runs the blocks with the indices `blocks`. state: before these blocks. Returns the state after
  // them.
  virtual nn::BlockState run_blocks(Range blocks, const nn::BlockState& state,
                                    const nn::StepContext& context) = 0;
  // Sizes of BlockState::streams and BlockState::conditions.
  virtual int64_t num_streams() const { return 1; }
  virtual int64_t num_conditions() const { return 0; }

  // The following functions compute the head. x: BlockState::output() after the last block.
  // labels: [batch, sequence], the token to predict at each position; -100: ignored.
  // context.temperature divides the logits in head_log_probabilities(), local_logits() and
  // head_divergences(); the other functions ignore it.

  // Returns the sum of the cross-entropies of all `labels` that are not ignored, a scalar in fp32
  // (fp64 in an fp64 model). All ranks of tp get the same sum.
  virtual at::Tensor head_loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                   const nn::StepContext& context) = 0;
  // Returns the log-probability of each label, [batch, sequence]; 0 for ignored labels.
  virtual at::Tensor head_log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                            const nn::StepContext& context) = 0;
  // For distillation. local_logits() returns this rank's part of the logits, [tokens on this rank,
  // vocabulary rows on this rank]. head_divergences() returns for each token the generalized
  // Jensen-Shannon divergence (ops::divergence()) of the model's distribution p and a teacher's q,
  // [batch, sequence]. beta: in [0, 1]; 0 is KL(q || p), 1 is KL(p || q). teacher: local_logits()
  // of the teacher, which has this model's vocabulary and layout.
  virtual at::Tensor local_logits(const at::Tensor& x, const nn::StepContext& context) = 0;
  virtual at::Tensor head_divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                      const nn::StepContext& context) = 0;
  // Returns the scores of a reward model or of a model that classifies texts, [batch, sequence,
  // TransformerConfig::scores], which must be above 0. The scores at a position depend on the
  // tokens that it attends to; those of the whole text are at TransformerConfig::scored_position.
  // Of images, the scores of a position are its part of those of the whole image, which are their
  // sum.
  virtual at::Tensor head_scores(const at::Tensor& x, const nn::StepContext& context) = 0;
  // Returns the pixels that a model with TransformerConfig::reconstructs gives to the patch of each
  // token, [batch, sequence, channels * patch * patch], in the order of nn::pixels_of_tokens().
  // Those of prefix tokens have no meaning.
  virtual at::Tensor head_pixels(const at::Tensor& x, const nn::StepContext& context) = 0;
  // Returns the outputs of the value head, [batch, sequence]. The model must have
  // TransformerConfig::value_head.
  virtual at::Tensor head_values(const at::Tensor& x, const nn::StepContext& context) = 0;
  // Returns logits [batch, sequence, vocabulary], or [n, vocabulary] for the tokens `wanted` only.
  // wanted: [n] int64 on the host, ascending indices into the flattened tokens [batch * sequence];
  // undefined: all tokens. All ranks of tp get the whole result.
  virtual at::Tensor head_logits(const at::Tensor& x, const nn::StepContext& context,
                                 const at::Tensor& wanted) = 0;
  // head_logits() in two parts. final_states() applies the final norm: it returns the input of the
  // output projection, [batch, sequence, hidden] or this rank's shard of it. logits_of_states()
  // applies the output projection to `states`, the result of final_states(). It takes `wanted` and
  // returns logits like head_logits().
  virtual at::Tensor final_states(const at::Tensor& x, const nn::StepContext& context) = 0;
  virtual at::Tensor logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                                      const at::Tensor& wanted) = 0;
  // Returns the states of the tokens `wanted`, [n, hidden], whole on all ranks of tp. states:
  // result of final_states(). wanted: as for head_logits(), but must be defined.
  virtual at::Tensor gathered_states(const at::Tensor& states, const nn::StepContext& context,
                                     const at::Tensor& wanted) = 0;

  // The following functions run the embedding, all blocks and the head, and return the result of
  // the function head_...() of the same name. Only for a model that is not divided into pipeline
  // stages.
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
    return run_blocks({0, num_blocks()}, embed(tokens, context), context).output();
  }
};

// Sizes of a model, for validation and estimates before anything is allocated.
struct ModelFacts {
  std::string family;      // model_type in config.json
  int64_t layers = 0;      // number of blocks
  int64_t hidden = 0;      // features of the residual stream
  int64_t heads = 0;       // query heads
  int64_t kv_heads = 0;    // heads of keys and of values
  int64_t head_size = 0;   // features per query or key head
  int64_t value_size = 0;  // features per value head
  // Number of key heads in the KV cache of a layer, which is also the number of its value heads:
  // kv_heads, or 1 if the cache stores the latents of latent attention
  // (TransformerConfig::key_value_cache_heads()).
  int64_t key_value_cache_heads = 0;
  // Numbers that the KV cache stores per token and layer: the features of the keys and values of
  // all heads together.
  int64_t key_value_cache_features = 0;
  bool causal = true;  // TransformerConfig::causal: false for encoders
  // Of an encoder-decoder: how many of `layers` are the encoder's, and the token that precedes the
  // first token of each target. 0: the model is no encoder-decoder.
  int64_t encoder_layers = 0;
  int64_t decoder_start_token = 0;
  // Of an encoder-decoder: the tokens that precede generated ones: the start token and, of models
  // that were trained to begin each text with the same token, that token.
  std::vector<int64_t> decoder_prompt;
  bool is_decoder() const { return causal && encoder_layers == 0; }
  int64_t scores = 0;        // TransformerConfig::scores; 0: the head returns logits of tokens
  int64_t vocabulary = 0;    // number of rows of the token embedding
  int64_t positions = 0;     // maximum sequence length, without the virtual tokens of a prefix
  int64_t experts = 0;       // routed experts of each layer that has experts; 0: no layer has any
  int64_t expert_inner = 0;  // intermediate size of an expert
  // In sequences of more tokens than this, the rotary frequencies depend on the sequence length. 0:
  // they never depend on it.
  int64_t fixed_rotary_length = 0;
  int64_t parameters = 0;  // number of the model's parameters, without an adapter's
  // For each layer: the maximum number of keys that a query sees because of the layer's sliding
  // window; 0: the layer has no window.
  std::vector<int64_t> windows;
  // Returns the FLOPs per token of a forward and a backward pass over sequences of `sequence`
  // tokens: 6 * product_weights (the last field), plus 6 * heads * (head_size + value_size) * T for
  // the attention of each layer, where T is the smaller of `sequence` and the layer's window
  // (`sequence` without a window). 6: a multiply-add is 2 FLOPs, and for each product of the
  // forward pass there are two in the backward pass. The causal mask is not taken into account.
  double flops_per_token(int64_t sequence) const;
  // Number of weights that multiply each token, the head's included; of experts, only the weights
  // of the experts to which a token is routed.
  int64_t product_weights = 0;
};

}  // namespace colossal::models
