// Image files for tests, and sources of them.
#pragma once

#include <string>

#include "colossal/data/images/image_source.h"
#include "colossal/image/decode.h"

namespace colossal::data {

// A PNG file of one colour.
inline std::string png_of(uint8_t red, uint8_t green, uint8_t blue,
                          image::ImageSize size = {4, 6}) {
  image::Image image = image::Image::of_size(size);
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    image.pixels[i] = red;
    image.pixels[i + 1] = green;
    image.pixels[i + 2] = blue;
  }
  return image::encode_png(image);
}

inline std::unique_ptr<ImageSource> open_images(const std::string& pattern,
                                                const ImageSourceOptions& options = {}) {
  return open_image_source(std::vector{pattern}, options);
}

}  // namespace colossal::data
