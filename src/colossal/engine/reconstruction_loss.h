// The loss of models that reconstruct masked patches of images (TransformerConfig::reconstructs).
#pragma once

#include "colossal/engine/staged_model.h"
#include "colossal/nn/patch_embedding.h"

namespace colossal {

// Returns the loss of a micro-batch with data::kPixels and data::kMasks: for each masked patch, the
// mean over its pixels and channels of |pixel - reconstruction|. LossSum::count is the number of
// masked patches among this rank's tokens; in a dry run, whose masks have no values, that of
// tokens. The mean is the loss of transformers' ..ForMaskedImageModeling, which divides by the
// number of masked pixels plus 1e-5 instead: with n of them, it is smaller by a factor of
// n / (n + 1e-5). Pixels that no whole patch has do not count.
HeadLoss reconstruction_loss(const nn::PatchEmbeddingOptions& patches);

}  // namespace colossal
