#include "colossal/image/orientation.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <string>

namespace colossal::image {
namespace {

using namespace std::string_view_literals;

// What files say about an image besides its pixels. Empty: nothing.
struct Metadata {
  std::string exif;  // a TIFF file, perhaps after "Exif\0\0"
  std::string xmp;   // XML
};

enum class ByteOrder { big_endian, little_endian };

// Returns the unsigned number in `size` bytes at `offset`; nullopt beyond the end.
std::optional<uint32_t> number_at(std::string_view bytes, size_t offset, size_t size,
                                  ByteOrder order) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    const size_t at = order == ByteOrder::big_endian ? i : size - 1 - i;
    value = value << 8 | static_cast<unsigned char>(bytes[offset + at]);
  }
  return value;
}

// A JPEG file before its pixels: markers, each followed by a segment.
Metadata jpeg_metadata(std::string_view content) {
  constexpr auto kExif = "Exif\0\0"sv, kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  constexpr unsigned char kStartOfScan = 0xDA, kApp1 = 0xE1;
  Metadata found;
  size_t at = 2;
  while (at + 1 < content.size()) {
    if (content[at] != '\xff') {
      ++at;
      continue;
    }
    const auto marker = static_cast<unsigned char>(content[at + 1]);
    if (marker == kStartOfScan) break;
    // Fill bytes, and markers without a segment.
    if (marker == 0xFF || marker == 0x00 || (marker >= 0xD0 && marker <= 0xD9)) {
      at += marker == 0xFF ? 1 : 2;
      continue;
    }
    const auto size = number_at(content, at + 2, 2, ByteOrder::big_endian);
    if (!size || *size < 2) break;
    const std::string_view segment = content.substr(at + 4, *size - 2);
    if (marker == kApp1 && segment.starts_with(kExif)) {
      found.exif += segment.substr(found.exif.empty() ? 0 : kExif.size());
    } else if (marker == kApp1 && segment.starts_with(kXmp)) {
      found.xmp = segment.substr(kXmp.size());
    }
    at += 2 + *size;
  }
  return found;
}

// Returns the decompressed text; empty if it is damaged, or larger than EXIF and XMP data are.
std::string inflate_text(std::string_view compressed) {
  constexpr uLongf kMostBytes = uLongf{1} << 20;
  std::string text(kMostBytes, '\0');
  uLongf size = kMostBytes;
  const int status = ::uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                  reinterpret_cast<const Bytef*>(compressed.data()),
                                  static_cast<uLong>(compressed.size()));
  text.resize(status == Z_OK ? size : 0);
  return text;
}

// Removes the text before the next zero byte, and this byte, from `rest`, and returns it.
std::string_view take_word(std::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

// The EXIF data that ImageMagick writes as a text: two lines, the number of bytes, and the bytes in
// hexadecimal digits.
std::string exif_of_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  std::string bytes, digits;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) continue;
    if (!std::isxdigit(static_cast<unsigned char>(c))) return "";
    digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

// texts: of a PNG file. profile: EXIF data of a text, which a chunk eXIf overrules.
struct PngTexts {
  std::string profile;
  std::string xmp;

  void add(std::string_view keyword, std::string_view text) {
    if (keyword == "Raw profile type exif") profile = exif_of_profile(text);
    if (keyword == "XML:com.adobe.xmp") xmp = text;
  }
};

void read_png_text(std::string_view kind, std::string_view data, PngTexts& texts) {
  const std::string_view keyword = take_word(data);
  if (kind == "tEXt") return texts.add(keyword, data);
  if (kind == "zTXt")
    return texts.add(keyword, inflate_text(data.substr(std::min<size_t>(1, data.size()))));
  if (data.size() < 2) return;
  const bool is_compressed = data[0] != 0;
  data.remove_prefix(2);
  take_word(data);  // the language
  take_word(data);  // the keyword in this language
  texts.add(keyword, is_compressed ? inflate_text(data) : std::string(data));
}

// Chunks: size, kind, data, checksum.
Metadata png_metadata(std::string_view content) {
  Metadata found;
  PngTexts texts;
  size_t at = 8;
  while (const auto size = number_at(content, at, 4, ByteOrder::big_endian)) {
    if (at + 8 > content.size()) break;
    const std::string_view kind = content.substr(at + 4, 4);
    const std::string_view data = content.substr(at + 8, *size);
    if (kind == "eXIf") {
      found.exif = data;
    } else if (kind == "tEXt" || kind == "zTXt" || kind == "iTXt") {
      read_png_text(kind, data, texts);
    } else if (kind == "IEND") {
      break;
    }
    at += 12 + size_t{*size};
  }
  if (found.exif.empty()) found.exif = std::move(texts.profile);
  found.xmp = std::move(texts.xmp);
  return found;
}

// Chunks: kind, size, data, and a byte more if the size is odd.
Metadata webp_metadata(std::string_view content) {
  Metadata found;
  size_t at = 12;
  while (const auto size = number_at(content, at + 4, 4, ByteOrder::little_endian)) {
    const std::string_view kind = content.substr(at, 4);
    const std::string_view data = content.substr(std::min(at + 8, content.size()), *size);
    if (kind == "EXIF" && found.exif.empty()) found.exif = data;
    if (kind == "XMP " && found.xmp.empty()) found.xmp = data;
    at += 8 + size_t{*size} + *size % 2;
  }
  return found;
}

// Returns the tag of the first directory of a TIFF file (TIFF 6.0, section 2).
std::optional<uint32_t> tiff_orientation(std::string_view tiff) {
  constexpr uint32_t kOrientation = 0x0112;
  while (tiff.starts_with("Exif\0\0"sv)) tiff.remove_prefix(6);
  if (!tiff.starts_with("II*\0"sv) && !tiff.starts_with("MM\0*"sv)) return std::nullopt;
  const ByteOrder order = tiff[0] == 'M' ? ByteOrder::big_endian : ByteOrder::little_endian;
  const auto directory = number_at(tiff, 4, 4, order);
  if (!directory) return std::nullopt;
  const auto entries = number_at(tiff, *directory, 2, order);
  std::optional<uint32_t> found;
  for (uint32_t i = 0; entries && i < *entries; ++i) {
    const size_t entry = size_t{*directory} + 2 + 12 * size_t{i};
    const auto tag = number_at(tiff, entry, 2, order), type = number_at(tiff, entry + 2, 2, order);
    const auto count = number_at(tiff, entry + 4, 4, order);
    if (!tag || !type || !count || entry + 12 > tiff.size()) break;
    if (*tag != kOrientation || *count != 1) continue;
    const bool is_short = *type == 3 || *type == 8, is_long = *type == 4 || *type == 9;
    if (is_short || is_long) found = number_at(tiff, entry + 8, is_short ? 2 : 4, order);
  }
  return found;
}

// Finds tiff:Orientation="6" or <tiff:Orientation>6</tiff:Orientation>.
std::optional<uint32_t> xmp_orientation(std::string_view xmp) {
  constexpr auto kName = "tiff:Orientation"sv;
  for (size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with(">")) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      return static_cast<uint32_t>(rest[0] - '0');
    }
  }
  return std::nullopt;
}

// place: returns the stored pixel (y, x) of a pixel of the turned image.
template <typename Place>
Image rearranged(const Image& image, ImageSize size, const Place& place) {
  Image result = Image::of_size(size);
  uint8_t* to = result.pixels.data();
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x, to += kChannels) {
      const auto [from_y, from_x] = place(y, x);
      std::memcpy(to, image.row(from_y) + from_x * kChannels, kChannels);
    }
  }
  return result;
}

}  // namespace

Orientation orientation_of(ImageKind kind, std::string_view content) {
  const Metadata metadata = kind == ImageKind::png    ? png_metadata(content)
                            : kind == ImageKind::jpeg ? jpeg_metadata(content)
                                                      : webp_metadata(content);
  auto value = tiff_orientation(metadata.exif);
  if (!value) value = xmp_orientation(metadata.xmp);
  return value && *value >= 1 && *value <= 8 ? static_cast<Orientation>(*value)
                                             : Orientation::upright;
}

bool swaps_sides(Orientation orientation) {
  return static_cast<int>(orientation) >= static_cast<int>(Orientation::transpose);
}

Image turned(Image image, Orientation orientation) {
  struct Pixel {
    int64_t y, x;
  };
  const int64_t bottom = image.height - 1, right = image.width - 1;
  const ImageSize same = image.size(), swapped{image.width, image.height};
  switch (orientation) {
    case Orientation::upright:
      break;
    case Orientation::flip_left_right:
      return flip_horizontally(image);
    case Orientation::turn_half:
      return rearranged(image, same, [=](int64_t y, int64_t x) {
        return Pixel{bottom - y, right - x};
      });
    case Orientation::flip_top_bottom:
      return rearranged(image, same, [=](int64_t y, int64_t x) { return Pixel{bottom - y, x}; });
    case Orientation::transpose:
      return rearranged(image, swapped, [](int64_t y, int64_t x) { return Pixel{x, y}; });
    case Orientation::turn_clockwise:
      return rearranged(image, swapped, [=](int64_t y, int64_t x) { return Pixel{bottom - x, y}; });
    case Orientation::transverse:
      return rearranged(image, swapped, [=](int64_t y, int64_t x) {
        return Pixel{bottom - x, right - y};
      });
    case Orientation::turn_counterclockwise:
      return rearranged(image, swapped, [=](int64_t y, int64_t x) { return Pixel{x, right - y}; });
  }
  return image;
}

}  // namespace colossal::image
