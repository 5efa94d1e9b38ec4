#include "colossal/image/image.h"

#include <algorithm>
#include <cstring>

#include "colossal/base/error.h"

namespace colossal::image {

Image crop(const Image& image, const PixelBox& box) {
  COLOSSAL_CHECK(box.top >= 0 && box.left >= 0 && box.top + box.height <= image.height &&
                     box.left + box.width <= image.width,
                 "box of {}x{} at ({}, {}) in an image of {}x{}", box.height, box.width, box.top,
                 box.left, image.height, image.width);
  Image cropped = Image::of_size({box.height, box.width});
  for (int64_t y = 0; y < box.height; ++y) {
    std::copy_n(image.row(box.top + y) + box.left * kChannels, cropped.row_bytes(), cropped.row(y));
  }
  return cropped;
}

Image flip_horizontally(const Image& image) {
  Image flipped = Image::of_size(image.size());
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* const from = image.row(y);
    uint8_t* const to = flipped.row(y);
    for (int64_t x = 0; x < image.width; ++x) {
      std::memcpy(to + (image.width - 1 - x) * kChannels, from + x * kChannels, kChannels);
    }
  }
  return flipped;
}

}  // namespace colossal::image
