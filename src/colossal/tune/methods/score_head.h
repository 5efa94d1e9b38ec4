// The scores that a model with a head for scores gives to whole texts: the output of the head at
// one position of each row. Used to train models that classify texts and reward models, and by
// ModelReward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/model.h"
#include "colossal/models/transformer_config.h"
#include "colossal/tune/samples/samples.h"

namespace colossal::tune {

// Returns the row with the token `padding` appended, unless it already ends with this token. Call
// it before collate(), which excludes the last token of a row from the inputs: the token excluded
// is then padding.
Row with_final_padding(Row row, int32_t padding);

// Adds the field data::kPooling to a batch. The position is that of the last token that is not
// `padding`, as in Hugging Face transformers. rows: the rows from which collate() made the batch.
void add_reward_positions(const std::vector<const Row*>& rows, int32_t padding, data::Batch& batch);

// Returns a batch of whole texts: the inputs of a row are all its tokens, and no position has a
// label. All rows are padded with the token `padding` to the length of the longest, at least
// `min_length`; the padding of an encoder's row is a document of its own, which the text does not
// see. Adds the field data::kPooling, for the position that model.scored_position says,
// and the types of tokens (Row::types) if the model has token types. sample_ids:
// Batch::sample_ids, one per row.
data::Batch collate_texts(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                          int32_t padding, int64_t min_length,
                          const models::TransformerConfig& model);

// Returns scores_of_rows() of a model with one score, [rows].
at::Tensor rewards_of_rows(models::Model& model, const nn::BlockState& state,
                           const data::Batch& batch, const nn::StepContext& step,
                           const ParallelContext& context);

}  // namespace colossal::tune
