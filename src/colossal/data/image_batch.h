// The fields of batches of images.
#pragma once

#include <cstdint>

#include "colossal/data/batch.h"

namespace colossal::data {

// The images, normalized: [batch, channels, height, width], fp32.
inline constexpr const char* kPixels = "pixels";

// With masked patches (image_masks.h): whether each patch is masked, row by row: [batch, patches],
// bool.
inline constexpr const char* kMasks = "masks";

// Returns the fields of images of these sizes, without masks.
BatchSpecification image_specification(int64_t channels, int64_t height, int64_t width);

}  // namespace colossal::data
