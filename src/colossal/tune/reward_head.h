// The rewards of whole rows by a model that scores texts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

// Returns the row with `padding` as its last token: collate() makes no input of that one.
Row ended_row(Row row, int32_t padding);

// Adds the field that is 1 at the position whose score is its row's reward: the last token that is
// not `padding`, as transformers finds it.
void add_reward_positions(const std::vector<const Row*>& rows, int32_t padding, data::Batch& batch);

// Returns the rewards [rows] of a batch that has the field, in fp32 (fp64 for fp64), the same on
// all ranks that share the rows. x: the residual stream after the last block. Ranks of sp send an
// all-reduce of a number for each row, in the forward pass only.
at::Tensor rewards_of_rows(models::LanguageModel& model, const at::Tensor& x,
                           const data::Batch& batch, const nn::StepContext& step,
                           const ParallelContext& context);

}  // namespace colossal::tune
