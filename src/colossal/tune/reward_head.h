// The rewards that a reward model gives to whole rows: the output of its score head at the last
// token of each row. Used to train reward models and by ModelReward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// Returns the row with the token `padding` appended, unless it already ends with this token. Call
// it before collate(), which excludes the last token of a row from the inputs: the token excluded
// is then padding.
Row with_final_padding(Row row, int32_t padding);

// Adds to a batch a field, [rows, tokens], that is 1 at the position whose score is the row's
// reward, and 0 elsewhere. This is the position of the last token that is not `padding`, as in
// Hugging Face transformers. rows: the rows from which collate() made the batch.
void add_reward_positions(const std::vector<const Row*>& rows, int32_t padding, data::Batch& batch);

// Returns the reward of each row of a batch, [rows], in fp32 (fp64 for an fp64 model),
// differentiable, equal on all ranks of sp. batch: this rank's part of the batch (local_batch(),
// batch_context.h), with the field that add_reward_positions() has added. x: the residual stream
// after the last block, [rows, tokens on this rank, hidden]. step: the context of the forward pass
// that computed x. Law with sp > 1: an all-reduce of one number per row over sp, in the forward
// pass only.
at::Tensor rewards_of_rows(models::LanguageModel& model, const at::Tensor& x,
                           const data::Batch& batch, const nn::StepContext& step,
                           const ParallelContext& context);

}  // namespace colossal::tune
