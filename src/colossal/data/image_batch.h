// The fields of batches of images.
#pragma once

#include <cstdint>

#include "colossal/data/batch.h"

namespace colossal::data {

// The images, normalized: [batch, channels, height, width], fp32.
inline constexpr const char* kPixels = "pixels";

// Returns the fields of images of these sizes.
BatchSpecification image_specification(int64_t channels, int64_t height, int64_t width);

}  // namespace colossal::data
