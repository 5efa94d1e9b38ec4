// Image: the pixels of a picture in memory, as decode_image() (decode.h) gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace colossal::image {

// In pixels.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

// A rectangle of whole pixels within an image.
struct PixelBox {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const PixelBox&) const = default;
};

inline constexpr int64_t kChannels = 3;  // red, green, blue

// pixels: row by row from the top, each row from the left, kChannels bytes per pixel.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;

  static Image of_size(ImageSize size) {
    return {size.height, size.width,
            std::vector<uint8_t>(static_cast<size_t>(size.height * size.width * kChannels))};
  }
  ImageSize size() const { return {height, width}; }
  int64_t row_bytes() const { return width * kChannels; }
  const uint8_t* row(int64_t y) const { return pixels.data() + y * row_bytes(); }
  uint8_t* row(int64_t y) { return pixels.data() + y * row_bytes(); }
  bool operator==(const Image&) const = default;
};

// Returns a copy of the pixels in `box`, which lies within the image.
Image crop(const Image& image, const PixelBox& box);

// Returns the mirror image: left becomes right.
Image flip_horizontally(const Image& image);

}  // namespace colossal::image
