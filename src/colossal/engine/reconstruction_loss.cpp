#include "colossal/engine/reconstruction_loss.h"

#include <ATen/TensorOperators.h>

#include "colossal/data/image_batch.h"

namespace colossal {

HeadLoss reconstruction_loss(const nn::PatchEmbeddingOptions& patches) {
  return [patches](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                   const nn::StepContext& step) {
    const at::Tensor found = model.pixel_head().pixels(state.output(), step);
    const at::ScalarType wide = found.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor pixels = nn::pixels_of_tokens(batch.at(data::kPixels).to(wide), patches, step);
    const at::Tensor masks = nn::masks_of_tokens(batch.at(data::kMasks), patches, step);
    const at::Tensor errors = (found.to(wide) - pixels).abs().mean(-1);
    return LossSum{.sum = (errors * masks.to(wide)).sum(), .count = masks.sum()};
  };
}

}  // namespace colossal
