#include "colossal/image/processor.h"

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"

namespace colossal::image {
namespace {

// Python's int(a * b / c) of whole numbers.
int64_t in_proportion(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<double>(a * b) / static_cast<double>(c));
}

// The shorter side becomes `edge` (get_resize_output_image_size of transformers).
ImageSize with_shortest_edge(ImageSize size, int64_t edge) {
  if (size.width <= size.height) return {in_proportion(edge, size.height, size.width), edge};
  return {edge, in_proportion(edge, size.width, size.height)};
}

// Likewise, unless the longer side becomes more than `longest`, and then this is `longest`
// (get_size_with_aspect_ratio of transformers, including its order of operations).
ImageSize with_bounded_edges(ImageSize size, int64_t edge, int64_t longest) {
  const auto shorter = static_cast<double>(std::min(size.height, size.width));
  const auto longer = static_cast<double>(std::max(size.height, size.width));
  const bool is_bounded =
      longer / shorter * static_cast<double>(edge) > static_cast<double>(longest);
  const double raw = static_cast<double>(longest) * shorter / longer;
  if (is_bounded) edge = static_cast<int64_t>(std::nearbyint(raw));
  const auto other = [&](int64_t long_side, int64_t short_side) {
    return is_bounded ? static_cast<int64_t>(raw * static_cast<double>(long_side) /
                                             static_cast<double>(short_side))
                      : in_proportion(edge, long_side, short_side);
  };
  if (std::min(size.height, size.width) == edge) return size;
  if (size.width < size.height) return {other(size.height, size.width), edge};
  return {edge, other(size.width, size.height)};
}

ImageSize at_least_one_pixel(ImageSize size) {
  return {std::max<int64_t>(size.height, 1), std::max<int64_t>(size.width, 1)};
}

// Cuts `size` from the middle; what lies beyond the image is black (center_crop of transformers).
Image center_crop(const Image& image, ImageSize size) {
  // Rounds down, also negative numbers.
  const auto first = [](int64_t from, int64_t to) {
    return static_cast<int64_t>(std::floor(static_cast<double>(from - to) / 2));
  };
  int64_t top = first(image.height, size.height), left = first(image.width, size.width);
  if (top >= 0 && left >= 0) return crop(image, {top, left, size.height, size.width});
  // The image in the middle of a larger one, with the border before it the larger half.
  const ImageSize padded{std::max(image.height, size.height), std::max(image.width, size.width)};
  const int64_t above = (padded.height - image.height + 1) / 2;
  const int64_t before = (padded.width - image.width + 1) / 2;
  Image larger = Image::of_size(padded);
  for (int64_t y = 0; y < image.height; ++y) {
    std::copy_n(image.row(y), image.row_bytes(), larger.row(above + y) + before * kChannels);
  }
  top = std::max<int64_t>(top + above, 0);
  left = std::max<int64_t>(left + before, 0);
  return crop(larger, {top, left, size.height, size.width});
}

Image resize_by_rule(const Image& image, const ResizeRule& rule, Filter filter) {
  switch (rule.kind) {
    case ResizeRule::Kind::exact:
      return resize(image, rule.size, filter);
    case ResizeRule::Kind::shortest_edge: {
      const ImageSize size =
          rule.longest_edge > 0
              ? with_bounded_edges(image.size(), rule.shortest_edge, rule.longest_edge)
              : with_shortest_edge(image.size(), rule.shortest_edge);
      return resize(image, at_least_one_pixel(size), filter);
    }
    case ResizeRule::Kind::crop_fraction:
      break;
  }
  constexpr int64_t kWithoutCrop = 384;
  const int64_t edge = rule.shortest_edge;
  if (edge >= kWithoutCrop) return resize(image, {edge, edge}, filter);
  const auto larger = static_cast<int64_t>(static_cast<double>(edge) / rule.crop_fraction);
  return center_crop(resize(image, with_shortest_edge(image.size(), larger), filter), {edge, edge});
}

// Computes as NumPy does: rescales in float64, rounds to float32, and normalizes in float32.
float value_of(int stored, const ProcessorOptions& options, size_t channel) {
  float value = static_cast<float>(stored);
  if (options.rescale_factor) {
    value = static_cast<float>(static_cast<double>(stored) * *options.rescale_factor);
  }
  if (options.normalize) {
    const auto mean = static_cast<float>(options.normalize->mean[channel]);
    const auto std = static_cast<float>(options.normalize->std[channel]);
    value = (value - mean) / std;
  }
  return value;
}

}  // namespace

Processor::Processor(const ProcessorOptions& options) : options_(options) {
  if (options_.resize) {
    const bool crops = options_.resize->kind == ResizeRule::Kind::crop_fraction;
    COLOSSAL_CHECK(crops == (options_.kind == ProcessorKind::convnext),
                   "kind {} does not resize so", static_cast<int>(options_.kind));
  }
  for (size_t channel = 0; channel < values_.size(); ++channel) {
    for (int stored = 0; stored < 256; ++stored) {
      values_[channel][static_cast<size_t>(stored)] = value_of(stored, options_, channel);
    }
  }
}

std::optional<ImageSize> Processor::output_size() const {
  if (options_.center_crop) return options_.center_crop;
  if (!options_.resize) return std::nullopt;
  const ResizeRule& rule = *options_.resize;
  if (rule.kind == ResizeRule::Kind::exact) return rule.size;
  if (rule.kind == ResizeRule::Kind::crop_fraction) {
    return ImageSize{rule.shortest_edge, rule.shortest_edge};
  }
  return std::nullopt;
}

Image Processor::resized_and_cropped(const Image& image) const {
  const Image resized =
      options_.resize ? resize_by_rule(image, *options_.resize, options_.filter) : image;
  return options_.center_crop ? center_crop(resized, *options_.center_crop) : resized;
}

Processor::Output Processor::process(const Image& image) const {
  const Image ready = resized_and_cropped(image);
  Output output{ready.size(), std::vector<float>(ready.pixels.size())};
  normalize_into(ready, output.pixels);
  return output;
}

void Processor::process_into(const Image& image, std::span<float> out) const {
  COLOSSAL_CHECK(output_size(), "the size of processed images depends on the image");
  normalize_into(resized_and_cropped(image), out);
}

void Processor::normalize_into(const Image& image, std::span<float> out) const {
  COLOSSAL_CHECK(out.size() == image.pixels.size(), "{} values for {}", out.size(),
                 image.pixels.size());
  const size_t plane = image.pixels.size() / kChannels;
  for (size_t channel = 0; channel < values_.size(); ++channel) {
    const auto& values = values_[channel];
    float* const to = out.data() + channel * plane;
    const uint8_t* const from = image.pixels.data() + channel;
    for (size_t i = 0; i < plane; ++i) to[i] = values[from[i * kChannels]];
  }
}

}  // namespace colossal::image
