// WebP by libwebp.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "colossal/image/codecs.h"

namespace colossal::image {
namespace {

const uint8_t* bytes_of(std::string_view content) {
  return reinterpret_cast<const uint8_t*>(content.data());
}

const char* reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses a feature that libwebp does not know";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    default:
      return "its data are invalid";
  }
}

WebPBitstreamFeatures features_of(std::string_view content, const std::string& name) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(bytes_of(content), content.size(), &features);
  if (status != VP8_STATUS_OK) raise_damaged(name, "WebP", reason_of(status));
  return features;
}

struct DeleteAnimation {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

// Returns the first frame on the transparent canvas of an animation.
Image decode_first_frame(std::string_view content, const std::string& name) {
  const WebPData data{bytes_of(content), content.size()};
  const std::unique_ptr<WebPAnimDecoder, DeleteAnimation> decoder(
      WebPAnimDecoderNew(&data, nullptr));
  WebPAnimInfo info;
  uint8_t* canvas = nullptr;  // RGBA, owned by the decoder
  int timestamp = 0;
  if (!decoder || !WebPAnimDecoderGetInfo(decoder.get(), &info) ||
      !WebPAnimDecoderGetNext(decoder.get(), &canvas, &timestamp)) {
    raise_damaged(name, "WebP", "its first frame cannot be decoded");
  }
  Image image = Image::of_size({info.canvas_height, info.canvas_width});
  for (size_t i = 0; i < image.pixels.size() / 3; ++i) {
    for (size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = canvas[4 * i + c];
  }
  return image;
}

}  // namespace

ImageSize webp_size(std::string_view content, const std::string& name) {
  const WebPBitstreamFeatures features = features_of(content, name);
  return {features.height, features.width};
}

Image decode_webp(std::string_view content, const std::string& name) {
  const WebPBitstreamFeatures features = features_of(content, name);
  if (features.has_animation) return decode_first_frame(content, name);
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) raise_damaged(name, "WebP", "libwebp is another version");
  Image image = Image::of_size({features.height, features.width});
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.pixels.data(), static_cast<int>(image.row_bytes()),
                          image.pixels.size()};
  const VP8StatusCode status = WebPDecode(bytes_of(content), content.size(), &config);
  if (status != VP8_STATUS_OK) raise_damaged(name, "WebP", reason_of(status));
  return image;
}

}  // namespace colossal::image
