#include "colossal/models/text_context.h"

#include <memory>

#include "colossal/data/text_batch.h"

namespace colossal::models {
namespace {

// Sets what follows from rows of `length` tokens. documents: of the rows, or undefined.
void set_rows(nn::StepContext& context, const data::Batch& batch, int64_t length,
              const at::Tensor& documents, const nn::SequencePart& part) {
  const at::Tensor positions = part.positions(length);
  context.batch = batch.rows();
  context.sequence = positions.numel();
  context.whole_sequence = context.length = length;
  context.sample_ids = batch.sample_ids;
  context.positions = positions.to(part.device);
  context.documents = documents.defined() ? documents.to(part.device) : documents;
}

}  // namespace

nn::StepContext text_context(const data::Batch& batch, const nn::StepContext& base,
                             const nn::SequencePart& part) {
  nn::StepContext context = base;
  set_rows(context, batch, data::sequence_length_of(batch), batch.find(data::kDocuments), part);
  if (const at::Tensor given = batch.find(data::kPositions); given.defined()) {
    context.positions = part.of(given, 1);
  }
  if (const at::Tensor types = batch.find(data::kTokenTypes); types.defined()) {
    context.token_types = part.of(types, 1);
  }
  context.states = batch.find(data::kTargetStates);
  if (const at::Tensor source = batch.find(data::kSource); source.defined()) {
    nn::StepContext of_source = base;
    set_rows(of_source, batch, source.size(1), batch.find(data::kSourceDocuments), part);
    context.source = std::make_shared<const nn::StepContext>(std::move(of_source));
    context.memory_documents = context.source->documents;
    context.source_tokens = part.of(source, 1);
  }
  return context;
}

}  // namespace colossal::models
