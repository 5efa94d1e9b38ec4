#include "colossal/models/image_context.h"

namespace colossal::models {

nn::StepContext image_context(const data::Batch& batch, const nn::StepContext& base,
                              const nn::SequencePart& part, int64_t num_tokens) {
  nn::StepContext context = base;
  const at::Tensor positions = part.positions(num_tokens);
  context.batch = batch.rows();
  context.sequence = positions.numel();
  context.whole_sequence = context.length = num_tokens;
  context.sample_ids = batch.sample_ids;
  context.positions = positions.to(part.device);
  return context;
}

}  // namespace colossal::models
