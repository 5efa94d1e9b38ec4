// Resolves the keys of [data] that say what is masked.
#pragma once

#include "colossal/data/image_masks.h"
#include "colossal/job/run_config.h"
#include "colossal/nn/patch_embedding.h"

namespace colossal {

// data.mask_probability of texts if it is unset.
inline constexpr double kMaskedTokens = 0.15;

// Returns how images are masked for a model with these patches. An unset data.mask_block is 32
// pixels but at most a quarter of the shorter side, in whole patches, at least one. Throws
// ConfigError if data.mask_block is not a multiple of the patch, or if an image has fewer than two
// blocks.
data::ImageMaskOptions resolve_masks(const DataConfig& config,
                                     const nn::PatchEmbeddingOptions& patches);

}  // namespace colossal
