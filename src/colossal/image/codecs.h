// The decoders of decode_image(), one for each kind of file. Pixels come as they are stored, before
// the image is turned (orientation.h).
#pragma once

#include <string>
#include <string_view>

#include "colossal/image/image.h"

namespace colossal::image {

// Return the size that the header gives. Throw IoError, with `name`, if the header is damaged.
ImageSize png_size(std::string_view content, const std::string& name);
ImageSize jpeg_size(std::string_view content, const std::string& name);
ImageSize webp_size(std::string_view content, const std::string& name);

// Decode an image whose size was checked. Throw IoError, with `name`, if it is damaged.
Image decode_png(std::string_view content, const std::string& name);
Image decode_jpeg(std::string_view content, const std::string& name);
Image decode_webp(std::string_view content, const std::string& name);

// Throws the IoError of a damaged image. kind: such as "PNG". reason: the decoder's.
[[noreturn]] void raise_damaged(const std::string& name, const char* kind,
                                const std::string& reason);

}  // namespace colossal::image
