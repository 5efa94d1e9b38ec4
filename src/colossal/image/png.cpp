// PNG by libpng.
#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "colossal/base/error.h"
#include "colossal/image/codecs.h"

namespace colossal::image {
namespace {

// libpng leaves a failed call by longjmp(), which skips destructors. Functions that call setjmp()
// or libpng therefore have no local objects with destructors; those live in their callers.
struct Reading {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view rest;  // of the file
  char message[128] = {};

  Reading() = default;
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
};

void keep_message(png_structp png, png_const_charp message) {
  auto& state = *static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(state.message, message, sizeof(state.message) - 1);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto& state = *static_cast<Reading*>(png_get_io_ptr(png));
  if (count > state.rest.size()) png_error(png, "the file ends too early");
  std::memcpy(out, state.rest.data(), count);
  state.rest.remove_prefix(count);
}

// Pixels do not depend on these chunks; some are large when they are decompressed.
constexpr char kIgnoredChunks[] =
    "tEXt\0"
    "zTXt\0"
    "iTXt\0"
    "iCCP\0"
    "sPLT\0"
    "eXIf\0"
    "hIST";
constexpr int kNumIgnoredChunks = 7;

// Returns false if the header is damaged or incomplete.
bool read_header(Reading& state, std::string_view content) {
  state.rest = content;
  state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, keep_message, ignore_warning);
  if (!state.png) return false;
  if (setjmp(png_jmpbuf(state.png))) return false;
  state.info = png_create_info_struct(state.png);
  if (!state.info) return false;
  png_set_read_fn(state.png, &state, read_bytes);
  png_set_user_limits(state.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_keep_unknown_chunks(state.png, PNG_HANDLE_CHUNK_NEVER,
                              reinterpret_cast<png_const_bytep>(kIgnoredChunks), kNumIgnoredChunks);
  png_read_info(state.png, state.info);
  return true;
}

// How the rows that read_rows() writes store a pixel.
struct Format {
  int color_type = 0;
  int bit_depth = 0;
  int64_t channels = 0;
  int64_t bytes_per_channel = 1;
};

// Sets what libpng does to rows: each channel takes whole bytes, and of 16 bits the upper 8 are
// kept, except of grey images. Returns false if libpng refuses.
bool prepare_rows(Reading& state, Format& format) {
  if (setjmp(png_jmpbuf(state.png))) return false;
  format.color_type = png_get_color_type(state.png, state.info);
  format.bit_depth = png_get_bit_depth(state.png, state.info);
  png_set_interlace_handling(state.png);
  png_set_packing(state.png);
  const bool is_deep_grey = format.bit_depth == 16 && format.color_type == PNG_COLOR_TYPE_GRAY;
  if (format.bit_depth == 16 && !is_deep_grey) png_set_strip_16(state.png);
  png_read_update_info(state.png, state.info);
  format.channels = png_get_channels(state.png, state.info);
  format.bytes_per_channel = is_deep_grey ? 2 : 1;
  return true;
}

// rows: pointers to the rows. Returns false if the pixels are damaged or incomplete.
bool read_rows(Reading& state, png_bytepp rows) {
  if (setjmp(png_jmpbuf(state.png))) return false;
  png_read_image(state.png, rows);
  return true;
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

// Colours beyond the end of the file's palette are black.
Palette palette_of(Reading& state) {
  png_colorp colors = nullptr;
  int count = 0;
  Palette palette{};
  if (png_get_PLTE(state.png, state.info, &colors, &count) != PNG_INFO_PLTE) return palette;
  for (int i = 0; i < std::min(count, 256); ++i) {
    palette[static_cast<size_t>(i)] = {colors[i].red, colors[i].green, colors[i].blue};
  }
  return palette;
}

// Returns the colour of each value of a channel of one byte.
Palette grey_palette(int bit_depth) {
  const int scale = bit_depth == 1 ? 255 : bit_depth == 2 ? 85 : bit_depth == 4 ? 17 : 1;
  Palette palette{};
  for (size_t i = 0; i < palette.size(); ++i) {
    palette[i].fill(static_cast<uint8_t>(static_cast<int>(i) * scale));
  }
  return palette;
}

void convert_by_palette(const std::vector<uint8_t>& stored, int64_t channels,
                        const Palette& palette, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    const auto& color = palette[stored[i * static_cast<size_t>(channels)]];
    std::copy(color.begin(), color.end(), rgb.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
}

// Pillow clips values of 16 bits to 255, though 65535 is white.
void convert_deep_grey(const std::vector<uint8_t>& stored, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    const uint8_t value = stored[2 * i] == 0 ? stored[2 * i + 1] : 255;
    std::fill_n(rgb.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, value);
  }
}

void drop_alpha(const std::vector<uint8_t>& rgba, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    std::copy_n(rgba.begin() + static_cast<std::ptrdiff_t>(4 * i), 3,
                rgb.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
}

void convert(Reading& state, const Format& format, std::vector<uint8_t>& stored,
             std::vector<uint8_t>& rgb) {
  switch (format.color_type) {
    case PNG_COLOR_TYPE_PALETTE:
      return convert_by_palette(stored, 1, palette_of(state), rgb);
    case PNG_COLOR_TYPE_GRAY:
      if (format.bytes_per_channel == 2) return convert_deep_grey(stored, rgb);
      return convert_by_palette(stored, 1, grey_palette(format.bit_depth), rgb);
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return convert_by_palette(stored, 2, grey_palette(8), rgb);
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return drop_alpha(stored, rgb);
    default:
      rgb = std::move(stored);
  }
}

ImageSize size_of(const Reading& state) {
  return {png_get_image_height(state.png, state.info), png_get_image_width(state.png, state.info)};
}

[[noreturn]] void raise(const Reading& state, const std::string& name) {
  raise_damaged(name, "PNG", state.message[0] ? state.message : "libpng cannot read it");
}

// Before memory is allocated for all pixels of a file that cannot have them.
void require_enough(std::string_view content, int64_t pixel_bytes, const std::string& name) {
  constexpr int64_t kMostExpansion = 1032;  // of deflate: 258 bytes by 2 bits
  if (pixel_bytes / kMostExpansion > std::ssize(content)) {
    raise_damaged(name, "PNG", "the file ends too early");
  }
}

struct Writing {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string* out = nullptr;

  ~Writing() { png_destroy_write_struct(&png, &info); }
};

void write_bytes(png_structp png, png_bytep bytes, size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))
      ->append(reinterpret_cast<const char*>(bytes), count);
}

void flush_nothing(png_structp) {}

bool write_image(Writing& state, const Image& image) {
  state.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, ignore_warning);
  if (!state.png) return false;
  if (setjmp(png_jmpbuf(state.png))) return false;
  state.info = png_create_info_struct(state.png);
  if (!state.info) return false;
  png_set_write_fn(state.png, state.out, write_bytes, flush_nothing);
  png_set_IHDR(state.png, state.info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(state.png, state.info);
  for (int64_t y = 0; y < image.height; ++y) png_write_row(state.png, image.row(y));
  png_write_end(state.png, state.info);
  return true;
}

}  // namespace

ImageSize png_size(std::string_view content, const std::string& name) {
  Reading state;
  if (!read_header(state, content)) raise(state, name);
  return size_of(state);
}

Image decode_png(std::string_view content, const std::string& name) {
  Reading state;
  Format format;
  if (!read_header(state, content) || !prepare_rows(state, format)) raise(state, name);
  const ImageSize size = size_of(state);
  const int64_t row_bytes = size.width * format.channels * format.bytes_per_channel;
  require_enough(content, size.height * size.width * format.channels * format.bit_depth / 8, name);
  Image image = Image::of_size(size);
  std::vector<uint8_t> stored(static_cast<size_t>(image.height * row_bytes));
  std::vector<png_bytep> rows(static_cast<size_t>(image.height));
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = stored.data() + static_cast<int64_t>(y) * row_bytes;
  }
  if (!read_rows(state, rows.data())) raise(state, name);
  convert(state, format, stored, image.pixels);
  return image;
}

std::string encode_png(const Image& image) {
  std::string content;
  Writing state;
  state.out = &content;
  COLOSSAL_CHECK(write_image(state, image), "an image of {} x {} cannot be written as PNG",
                 image.width, image.height);
  return content;
}

}  // namespace colossal::image
