#include "colossal/booster/batch_context.h"

#include "colossal/parallel/sequence/positions.h"

namespace colossal {

int64_t sequence_of(const data::Batch& batch) {
  return batch.inputs.dim() > 1 ? batch.inputs.size(1) : 1;
}

data::Batch local_batch(const data::Batch& batch, const ParallelContext& context) {
  const bool whole = context.strategy().sp == 1;
  const at::Tensor positions =
      whole ? at::Tensor() : parallel::positions_here(sequence_of(batch), context);
  const auto here = [&](const at::Tensor& tensor) {
    return (whole ? tensor : tensor.index_select(1, positions)).to(context.device());
  };
  data::Batch part{here(batch.inputs), here(batch.labels), batch.sample_ids};
  for (const auto& [name, field] : batch.fields) {
    const bool cut = field.sequence_dim && !whole;
    const at::Tensor values =
        cut ? field.values.index_select(*field.sequence_dim, positions) : field.values;
    part.fields[name] = {values.to(context.device()), field.sequence_dim};
  }
  return part;
}

nn::StepContext context_of(const data::Batch& batch, const ParallelContext& context,
                           int64_t steps_done, uint64_t seed, bool training) {
  const at::Tensor positions = parallel::positions_here(sequence_of(batch), context);
  nn::StepContext made =
      nn::make_step_context(batch.inputs.size(0), positions.numel(), context.device());
  const at::Tensor by_row =
      batch.positions.defined() ? batch.positions.index_select(1, positions) : positions;
  made.positions = by_row.to(context.device());
  made.whole_sequence = made.length = sequence_of(batch);
  made.seed = seed;
  made.step = steps_done;
  made.training = training;
  made.sample_ids = batch.sample_ids;
  if (batch.documents.defined()) made.documents = batch.documents.to(context.device());
  if (const auto states = batch.fields.find(kStatesField); states != batch.fields.end()) {
    made.states = states->second.values;
  }
  if (const auto types = batch.fields.find(kTokenTypesField); types != batch.fields.end()) {
    made.token_types = types->second.values.index_select(1, positions).to(context.device());
  }
  return made;
}

}  // namespace colossal
