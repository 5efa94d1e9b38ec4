// JPEG by libjpeg-turbo.
#include <csetjmp>
#include <cstddef>
#include <cstdio>

// After <cstdio>, whose types it needs.
#include <jpeglib.h>

#include "colossal/image/codecs.h"

namespace colossal::image {
namespace {

// libjpeg leaves a failed call by longjmp(), which skips destructors. Functions that call setjmp()
// or libjpeg therefore have no local objects with destructors; those live in their callers.
struct Decompression {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  std::jmp_buf on_error{};
  char message[JMSG_LENGTH_MAX] = {};

  Decompression() = default;
  Decompression(const Decompression&) = delete;
  Decompression& operator=(const Decompression&) = delete;
  ~Decompression() { jpeg_destroy_decompress(&info); }
};

void fail(j_common_ptr info) {
  auto& state = *static_cast<Decompression*>(info->client_data);
  info->err->format_message(info, state.message);
  std::longjmp(state.on_error, 1);
}

void ignore_message(j_common_ptr) {}
void ignore(j_decompress_ptr) {}

// The source holds the whole file: where it ends, the image is incomplete.
boolean end_of_file(j_decompress_ptr) {
  return FALSE;
}

void skip(j_decompress_ptr info, long bytes) {
  jpeg_source_mgr& source = *info->src;
  const size_t skipped = std::min(static_cast<size_t>(std::max(bytes, 0L)), source.bytes_in_buffer);
  source.next_input_byte += skipped;
  source.bytes_in_buffer -= skipped;
}

// Returns false if the header is damaged or incomplete.
bool read_header(Decompression& state, std::string_view content) {
  state.info.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = fail;
  state.errors.output_message = ignore_message;
  state.info.client_data = &state;
  if (setjmp(state.on_error)) return false;
  jpeg_create_decompress(&state.info);
  state.source.init_source = ignore;
  state.source.fill_input_buffer = end_of_file;
  state.source.skip_input_data = skip;
  state.source.resync_to_restart = jpeg_resync_to_restart;
  state.source.term_source = ignore;
  state.source.next_input_byte = reinterpret_cast<const JOCTET*>(content.data());
  state.source.bytes_in_buffer = content.size();
  state.info.src = &state.source;
  return jpeg_read_header(&state.info, TRUE) == JPEG_HEADER_OK;
}

// Decodes to rows of `row_bytes` bytes. Returns false if the pixels are damaged or incomplete.
bool read_rows(Decompression& state, uint8_t* rows, int64_t row_bytes) {
  if (setjmp(state.on_error)) return false;
  if (!jpeg_start_decompress(&state.info)) return false;
  while (state.info.output_scanline < state.info.output_height) {
    JSAMPROW row = rows + state.info.output_scanline * row_bytes;
    if (jpeg_read_scanlines(&state.info, &row, 1) != 1) return false;
  }
  return true;  // a missing end marker is no loss
}

[[noreturn]] void raise(const Decompression& state, const std::string& name) {
  raise_damaged(name, "JPEG", state.message[0] ? state.message : "the file ends too early");
}

ImageSize size_of(const Decompression& state) {
  return {state.info.image_height, state.info.image_width};
}

// As MULDIV255() of Pillow: a * b / 255, rounded.
int multiply_bytes(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Converts inverted CMYK, which is how Adobe's programs store it and what Pillow always assumes,
// without a colour profile.
void inverted_cmyk_to_rgb(const std::vector<uint8_t>& cmyk, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    const int light = cmyk[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = 255 - cmyk[4 * i + c];
      rgb[3 * i + c] = static_cast<uint8_t>(std::max(light - multiply_bytes(ink, light), 0));
    }
  }
}

Image decode_cmyk(Decompression& state, const std::string& name) {
  state.info.out_color_space = JCS_CMYK;
  Image image = Image::of_size(size_of(state));
  std::vector<uint8_t> cmyk(image.pixels.size() / 3 * 4);
  if (!read_rows(state, cmyk.data(), image.width * 4)) raise(state, name);
  inverted_cmyk_to_rgb(cmyk, image.pixels);
  return image;
}

}  // namespace

ImageSize jpeg_size(std::string_view content, const std::string& name) {
  Decompression state;
  if (!read_header(state, content)) raise(state, name);
  return size_of(state);
}

Image decode_jpeg(std::string_view content, const std::string& name) {
  Decompression state;
  if (!read_header(state, content)) raise(state, name);
  const int channels = state.info.num_components;
  if (channels == 4) return decode_cmyk(state, name);
  if (channels != 1 && channels != 3) {
    raise_damaged(name, "JPEG", std::to_string(channels) + " channels, but images have 1, 3 or 4");
  }
  state.info.out_color_space = JCS_RGB;  // also of grey images
  Image image = Image::of_size(size_of(state));
  if (!read_rows(state, image.pixels.data(), image.row_bytes())) raise(state, name);
  return image;
}

}  // namespace colossal::image
