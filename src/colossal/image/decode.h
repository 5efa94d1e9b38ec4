// Decodes PNG, JPEG and WebP to RGB, and encodes PNG. Pixels are those of Pillow,
// ImageOps.exif_transpose(Image.open(file)).convert("RGB"), which is what load_image() of
// transformers returns: an image is turned as its EXIF data say, alpha is dropped, and colour
// profiles are ignored. Of an animation, the first frame is decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "colossal/image/image.h"

namespace colossal::image {

enum class ImageKind { png, jpeg, webp };

// Returns the kind of a file by its first bytes (at least 16, or the whole file), whatever its name
// is; nullopt if it is no image of these kinds.
std::optional<ImageKind> image_kind(std::string_view content);

// An image with more pixels is refused, as Pillow does: small files can expand to any size.
inline constexpr int64_t kMaximumPixels = 2 * 89478485;

// Decodes an image file in memory. name: the path or the like, for messages. Throws ConfigError if
// it is no image of a known kind, or has more than kMaximumPixels; IoError if it is damaged or
// incomplete. Damage that leaves the file valid, such as a changed colour, cannot be noticed.
Image decode_image(std::string_view content, const std::string& name);

// Returns the size that decode_image() gives, without decoding the pixels. Throws as
// decode_image(), but notices only damage of what it reads.
ImageSize image_size(std::string_view content, const std::string& name);

// Returns the image as a PNG file.
std::string encode_png(const Image& image);

}  // namespace colossal::image
