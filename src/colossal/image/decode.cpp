#include "colossal/image/decode.h"

#include "colossal/base/error.h"
#include "colossal/image/codecs.h"
#include "colossal/image/orientation.h"

namespace colossal::image {
namespace {

using namespace std::string_view_literals;

std::string describe_unknown(std::string_view content) {
  if (content.empty()) return "is empty";
  if (content.starts_with("GIF8")) return "is a GIF image";
  if (content.starts_with("BM")) return "looks like a BMP image";
  if (content.starts_with("II*\0"sv) || content.starts_with("MM\0*"sv)) return "is a TIFF image";
  if (content.size() > 12 && content.substr(4, 4) == "ftyp") return "is an AVIF or HEIC image";
  return "is no image";
}

ImageKind known_kind(std::string_view content, const std::string& name) {
  if (const auto kind = image_kind(content)) return *kind;
  throw ConfigError(fmt::format(
      "'{}' {}: images are read from PNG, JPEG and WebP files; convert it or leave it out", name,
      describe_unknown(content)));
}

// Returns the size in the header, before the image is turned.
ImageSize stored_size(ImageKind kind, std::string_view content, const std::string& name) {
  const ImageSize size = kind == ImageKind::png    ? png_size(content, name)
                         : kind == ImageKind::jpeg ? jpeg_size(content, name)
                                                   : webp_size(content, name);
  if (size.height * size.width > kMaximumPixels) {
    throw ConfigError(fmt::format(
        "'{}' has {} x {} pixels, and images of at most {} pixels are decoded: make it smaller",
        name, size.width, size.height, kMaximumPixels));
  }
  return size;
}

}  // namespace

std::optional<ImageKind> image_kind(std::string_view content) {
  if (content.starts_with("\x89PNG\r\n\x1a\n"sv)) return ImageKind::png;
  if (content.starts_with("\xff\xd8\xff"sv)) return ImageKind::jpeg;
  if (content.starts_with("RIFF"sv) && content.size() >= 16 && content.substr(8, 7) == "WEBPVP8") {
    return ImageKind::webp;
  }
  return std::nullopt;
}

void raise_damaged(const std::string& name, const char* kind, const std::string& reason) {
  throw IoError(fmt::format("'{}' is a damaged {} image: {}", name, kind, reason));
}

Image decode_image(std::string_view content, const std::string& name) {
  const ImageKind kind = known_kind(content, name);
  stored_size(kind, content, name);
  Image stored = kind == ImageKind::png    ? decode_png(content, name)
                 : kind == ImageKind::jpeg ? decode_jpeg(content, name)
                                           : decode_webp(content, name);
  return turned(std::move(stored), orientation_of(kind, content));
}

ImageSize image_size(std::string_view content, const std::string& name) {
  const ImageKind kind = known_kind(content, name);
  const ImageSize size = stored_size(kind, content, name);
  return swaps_sides(orientation_of(kind, content)) ? ImageSize{size.width, size.height} : size;
}

}  // namespace colossal::image
