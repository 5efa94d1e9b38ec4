// Resizes images with the same bits as Pillow's Image.resize(size, resample, box), version 12: the
// image is first resampled along rows and then along columns, in fixed point with 22 fractional
// bits, and when it shrinks the filter is as much wider (src/libImaging/Resample.c in Pillow).
//
// Pillow 13 resamples columns first if the height shrinks by more than twice as many pixels as the
// width. There its values differ from these by 1 here and there.
#pragma once

#include <array>
#include <optional>

#include "colossal/image/image.h"

namespace colossal::image {

// The numbers are those of Pillow, and of `resample` in preprocessor_config.json.
enum class Filter {
  nearest = 0,
  lanczos = 1,
  bilinear = 2,
  bicubic = 3,
  box = 4,
  hamming = 5,
};

// The part of an image that is resized, in pixels, which may be fractions of pixels.
struct SourceBox {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
};

// Returns `image`, or its part within `box`, in the size `size`. Both sides of `size` are at least
// 1; `box` lies within the image. Pixels beyond the edges of `box` but within the filter's support
// contribute too.
Image resize(const Image& image, ImageSize size, Filter filter,
             const std::optional<SourceBox>& box = std::nullopt);

}  // namespace colossal::image
