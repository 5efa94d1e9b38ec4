#include "colossal/engine/batch_context.h"

#include "colossal/parallel/sequence/positions.h"

namespace colossal {

int64_t sequence_of(const data::Batch& batch) {
  return batch.inputs.dim() > 1 ? batch.inputs.size(1) : 1;
}

namespace {

// Returns this rank's positions of a tensor on its device. dim: the dimension of the sequence.
at::Tensor positions_of_rank(const at::Tensor& tensor, int64_t dim,
                             const ParallelContext& context) {
  const bool whole = context.strategy().sp == 1;
  const at::Tensor here =
      whole ? tensor
            : tensor.index_select(dim, parallel::positions_here(tensor.size(dim), context));
  return here.to(context.device());
}

}  // namespace

data::Batch local_batch(const data::Batch& batch, const ParallelContext& context) {
  data::Batch part{positions_of_rank(batch.inputs, 1, context),
                   positions_of_rank(batch.labels, 1, context), batch.sample_ids};
  for (const auto& [name, field] : batch.fields) {
    part.fields[name] = {field.sequence_dim
                             ? positions_of_rank(field.values, *field.sequence_dim, context)
                             : field.values.to(context.device()),
                         field.sequence_dim};
  }
  return part;
}

namespace {

// Returns a field's values, or an undefined tensor.
at::Tensor values_of(const data::Batch& batch, const char* field) {
  const auto found = batch.fields.find(field);
  return found == batch.fields.end() ? at::Tensor() : found->second.values;
}

// The context of rows of tokens, without the batch's fields.
nn::StepContext context_of_rows(const data::Batch& rows, const ParallelContext& context,
                                int64_t steps_done, uint64_t seed, bool training) {
  const at::Tensor positions = parallel::positions_here(sequence_of(rows), context);
  nn::StepContext made =
      nn::make_step_context(rows.inputs.size(0), positions.numel(), context.device());
  const at::Tensor by_row =
      rows.positions.defined() ? rows.positions.index_select(1, positions) : positions;
  made.positions = by_row.to(context.device());
  made.whole_sequence = made.length = sequence_of(rows);
  made.seed = seed;
  made.step = steps_done;
  made.training = training;
  made.sample_ids = rows.sample_ids;
  if (rows.documents.defined()) made.documents = rows.documents.to(context.device());
  return made;
}

}  // namespace

nn::StepContext context_of(const data::Batch& batch, const ParallelContext& context,
                           int64_t steps_done, uint64_t seed, bool training) {
  nn::StepContext made = context_of_rows(batch, context, steps_done, seed, training);
  made.states = values_of(batch, kStatesField);
  if (const at::Tensor types = values_of(batch, kTokenTypesField); types.defined()) {
    made.token_types = positions_of_rank(types, 1, context);
  }
  if (const at::Tensor source = values_of(batch, data::kSourceField); source.defined()) {
    const data::Batch rows{.inputs = source,
                           .labels = {},
                           .sample_ids = batch.sample_ids,
                           .documents = values_of(batch, data::kSourceDocumentsField)};
    made.source = std::make_shared<nn::StepContext>(
        context_of_rows(rows, context, steps_done, seed, training));
    made.memory_documents = made.source->documents;
    made.source_tokens = positions_of_rank(source, 1, context);
  }
  return made;
}

}  // namespace colossal
