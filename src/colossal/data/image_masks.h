// Masked patches of images, as in SimMIM (Z. Xie et al., "SimMIM: A Simple Framework for Masked
// Image Modeling", 2022, 3.2): an image is divided into square blocks of patches, and a fixed
// number of them, chosen at random, is masked.
#pragma once

#include <cstdint>

#include "colossal/data/batch.h"

namespace colossal::data {

struct ImageMaskOptions {
  int64_t rows = 0, columns = 0;  // of patches
  int64_t block = 1;              // patches along a side of a block; the last ones may be smaller
  double share = 0.6;             // of the blocks that are masked
  uint64_t seed = 0;

  int64_t num_blocks() const;  // of an image
  // Number of blocks of an image that are masked: the share rounded up, but not all.
  int64_t num_masked() const;
};

// Adds the field kMasks (image_batch.h). Which patches of a row are masked depends only on the
// options and the row's Batch::sample_ids, so it is the same at every layout, and new in each
// epoch. Throws InternalError if an image has fewer than two blocks.
void mask_patches(Batch& batch, const ImageMaskOptions& options);

}  // namespace colossal::data
