// Rewards of whole rows, computed by the score head of a reward model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// Returns the row with the token `padding` appended unless it ends with it. collate() excludes a
// row's last token from the inputs; so this excludes only padding.
Row ended_row(Row row, int32_t padding);

// Adds a batch field, [rows, tokens], that is 1 at the position whose score is the row's reward and
// 0 elsewhere. The position is that of the last token that is not `padding`, as in Hugging Face
// transformers.
void add_reward_positions(const std::vector<const Row*>& rows, int32_t padding, data::Batch& batch);

// Returns the rewards [rows] of a batch with the field of add_reward_positions(), in fp32 (fp64 for
// an fp64 model), differentiable, equal on all ranks of sp. x: the residual stream after the last
// block, [rows, tokens on this rank, hidden]. Law with sp > 1: an all-reduce of one number per row
// over sp, in the forward pass only.
at::Tensor rewards_of_rows(models::LanguageModel& model, const at::Tensor& x,
                           const data::Batch& batch, const nn::StepContext& step,
                           const ParallelContext& context);

}  // namespace colossal::tune
