// Rewards of whole rows by the score head of a reward model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// Returns the row with `padding` as its last token, which collate() excludes from the inputs.
Row ended_row(Row row, int32_t padding);

// Adds a batch field that is 1 at the position whose score is the reward of its row: the last token
// that is not `padding`, as in Hugging Face transformers. [rows, tokens]
void add_reward_positions(const std::vector<const Row*>& rows, int32_t padding, data::Batch& batch);

// Returns the rewards [rows] of a batch with that field, in fp32 (fp64 for an fp64 model), equal on
// all ranks that share the rows. x: the residual stream after the last block. Law with sp > 1: an
// all-reduce of one number per row, in the forward pass only.
at::Tensor rewards_of_rows(models::LanguageModel& model, const at::Tensor& x,
                           const data::Batch& batch, const nn::StepContext& step,
                           const ParallelContext& context);

}  // namespace colossal::tune
