// Model: the interface of a model of any family, which training, evaluation and generation call.
// build_model() in families.h makes a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "colossal/base/error.h"
#include "colossal/base/range.h"
#include "colossal/data/batch.h"
#include "colossal/models/model_parts.h"
#include "colossal/nn/block_state.h"
#include "colossal/nn/sequence_part.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// A model in three parts, which pipeline stages can run separately: its inputs, its blocks, and its
// heads. A decoder or an encoder has one residual stream. In an encoder-decoder
// (TransformerConfig::encoder_layers), blocks of the encoder precede those of the decoder, which
// also attend to the encoder's output. batch, sequence: the sequences of this rank's micro-batch
// and the positions of each on this rank (nn::TokenGrid). Activations are [batch, sequence,
// hidden], or this rank's shard of them.
//
// The functions are collective: the ranks of tp call them in the same order, and so do the ranks of
// sp if they divide the sequences. With ZeRO stage 3 or expert parallelism, all ranks of dp, sp and
// tp with the same pipeline stage do.
class Model {
 public:
  virtual ~Model() = default;

  // Returns the context of a forward pass over a batch: `base`, which has the seed, the step and
  // whether it is training, with what the batch's fields say. batch: with whole sequences.
  virtual nn::StepContext context_of(const data::Batch& batch, const nn::StepContext& base,
                                     const nn::SequencePart& part) const = 0;
  // Returns the state before the first block. batch: this rank's part of a batch.
  virtual nn::BlockState inputs(const data::Batch& batch, const nn::StepContext& context) = 0;
  virtual int64_t num_blocks() const = 0;
  // Runs the blocks with the indices `blocks`. state: before these blocks. Returns the state after
  // them.
  virtual nn::BlockState run_blocks(Range blocks, const nn::BlockState& state,
                                    const nn::StepContext& context) = 0;
  // Sizes of BlockState::streams and BlockState::conditions.
  virtual int64_t num_streams() const { return 1; }
  virtual int64_t num_conditions() const { return 0; }

  // What the model has besides its blocks. They throw InternalError if the model has no such part.
  TextInputs& text_inputs() { return checked(parts().text_inputs, "inputs of texts"); }
  TokenHead& token_head() { return checked(parts().token_head, "head for tokens"); }
  ScoreHead& score_head() { return checked(parts().score_head, "head for scores"); }
  PixelHead& pixel_head() { return checked(parts().pixel_head, "head for pixels"); }
  ValueHead& value_head() { return checked(parts().value_head, "head for values"); }
  EmbeddingHead& embedding_head() { return checked(parts().embedding_head, "head for vectors"); }

 protected:
  struct Parts {  // null: the model has no such part
    TextInputs* text_inputs = nullptr;
    TokenHead* token_head = nullptr;
    ScoreHead* score_head = nullptr;
    PixelHead* pixel_head = nullptr;
    ValueHead* value_head = nullptr;
    EmbeddingHead* embedding_head = nullptr;
  };
  virtual Parts parts() = 0;

 private:
  template <typename Part>
  static Part& checked(Part* part, std::string_view what) {
    COLOSSAL_CHECK(part, "the model has no {}", what);
    return *part;
  }
};

}  // namespace colossal::models
