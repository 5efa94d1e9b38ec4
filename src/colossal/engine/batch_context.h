// Selects the part of a micro-batch that this rank computes, and makes the StepContext of the
// forward pass. PipelineExecutor calls these functions before it runs a stage.
#pragma once

#include <cstdint>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/step_context.h"

namespace colossal {

// Returns the number of positions of each sequence of a batch: batch.inputs.size(1), or 1 if
// batch.inputs has a single dimension.
int64_t sequence_of(const data::Batch& batch);

// Returns this rank's part of a micro-batch, copied to the context's device: every sample, with the
// positions of its sequence that this rank of sp computes. `inputs`, `labels`, and the fields that
// have a sequence_dim are sharded; the other fields are copied as they are. `documents` and
// `positions` are left out: context_of() puts them into the StepContext.
data::Batch local_batch(const data::Batch& batch, const ParallelContext& context);

// Key in Batch::fields of the hidden states of the target model, for a draft model of speculative
// decoding. Unlike the other fields, this field has only this rank's part of the hidden states,
// even in a whole micro-batch: the part that activations between blocks have on this rank. It is on
// the context's device and has no sequence_dim. context_of() stores the tensor as
// StepContext::states, which is undefined if the micro-batch lacks this field.
inline constexpr const char* kStatesField = "states";
// Name of the batch field with the type of each token (nn::StepContext::token_types), [batch,
// sequence] int64, whose sequence_dim is 1.
inline constexpr const char* kTokenTypesField = "token_types";

// Makes the StepContext for a forward pass over local_batch(batch, context). batch: the whole
// micro-batch, not the result of local_batch(). steps_done: number of updates so far. The layers'
// random numbers depend on seed, steps_done, and the samples' ids. training: whether dropout and
// the capacity of experts are active.
nn::StepContext context_of(const data::Batch& batch, const ParallelContext& context,
                           int64_t steps_done, uint64_t seed, bool training);

}  // namespace colossal
