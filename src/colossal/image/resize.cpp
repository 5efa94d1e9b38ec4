#include "colossal/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "colossal/base/cpu_features.h"
#include "colossal/base/error.h"
#include "colossal/image/resample.h"

namespace colossal::image {
namespace {

double box_filter(double x) {
  return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

double bilinear_filter(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

double hamming_filter(double x) {
  x = std::abs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54f + 0.46f * std::cos(x));  // Pillow's constants are floats
}

// Keys' cubic convolution with a = -1/2.
double bicubic_filter(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos_filter(double x) {
  return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

struct FilterKernel {
  double (*weight)(double);
  double support;  // half the width, in pixels of the smaller of source and result
};

FilterKernel kernel_of(Filter filter) {
  switch (filter) {
    case Filter::box:
      return {box_filter, 0.5};
    case Filter::hamming:
      return {hamming_filter, 1.0};
    case Filter::bicubic:
      return {bicubic_filter, 2.0};
    case Filter::lanczos:
      return {lanczos_filter, 3.0};
    default:
      return {bilinear_filter, 1.0};
  }
}

int32_t to_fixed(double weight) {
  return static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kWeightBits));
}

// Divides [begin, end) of a side of source_size pixels into result_size pixels.
Taps make_taps(int64_t source_size, float begin, float end, int64_t result_size,
               const FilterKernel& kernel) {
  const double scale = static_cast<double>(end - begin) / static_cast<double>(result_size);
  const double widening = std::max(scale, 1.0), inverse = 1.0 / widening;
  const double support = kernel.support * widening;
  Taps taps;
  taps.most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  taps.weights.resize(static_cast<size_t>(result_size * taps.most));
  std::vector<double> weights(static_cast<size_t>(taps.most));
  for (int64_t i = 0; i < result_size; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t last = std::min(static_cast<int64_t>(center + support + 0.5), source_size);
    const int64_t count = last - first;
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double weight =
          kernel.weight((static_cast<double>(k + first) - center + 0.5) * inverse);
      weights[static_cast<size_t>(k)] = weight;
      sum += weight;
    }
    int32_t* const fixed = taps.weights.data() + i * taps.most;
    for (int64_t k = 0; k < count; ++k) {
      const double weight = weights[static_cast<size_t>(k)];
      fixed[k] = to_fixed(sum == 0 ? weight : weight / sum);
    }
    taps.ranges.push_back({first, count});
  }
  return taps;
}

// Returns the pixel of the source for each pixel of the result, along one side. As Pillow does, the
// position is the sum of steps.
std::vector<int64_t> nearest_pixels(int64_t source_size, float begin, float end,
                                    int64_t result_size) {
  const double step = static_cast<double>(end - begin) / static_cast<double>(result_size);
  double position = begin + step * 0.5;
  std::vector<int64_t> pixels;
  for (int64_t i = 0; i < result_size; ++i, position += step) {
    pixels.push_back(std::min(static_cast<int64_t>(position), source_size - 1));
  }
  return pixels;
}

Image resize_nearest(const Image& image, ImageSize size, const SourceBox& box) {
  const auto columns = nearest_pixels(image.width, box.left, box.right, size.width);
  const auto rows = nearest_pixels(image.height, box.top, box.bottom, size.height);
  Image result = Image::of_size(size);
  for (int64_t y = 0; y < size.height; ++y) {
    const uint8_t* const from = image.row(rows[static_cast<size_t>(y)]);
    uint8_t* to = result.row(y);
    for (const int64_t column : columns) {
      std::memcpy(to, from + column * kChannels, kChannels);
      to += kChannels;
    }
  }
  return result;
}

SourceBox whole(const Image& image) {
  return {0, 0, static_cast<float>(image.width), static_cast<float>(image.height)};
}

// Whether the box has whole pixels, as many as the result.
bool is_crop(ImageSize size, const SourceBox& box) {
  return box.left == std::trunc(box.left) && box.top == std::trunc(box.top) &&
         box.right - box.left == static_cast<float>(size.width) &&
         box.bottom - box.top == static_cast<float>(size.height);
}

// Resizes in one go, as resize() of Pillow's C code.
Image resize_at_once(const Image& image, ImageSize size, Filter filter, const SourceBox& box) {
  if (is_crop(size, box)) {
    return crop(image, {static_cast<int64_t>(box.top), static_cast<int64_t>(box.left), size.height,
                        size.width});
  }
  if (filter == Filter::nearest) return resize_nearest(image, size, box);
  const FilterKernel kernel = kernel_of(filter);
  const auto differs = [](int64_t source, int64_t result, float begin, float end) {
    return source != result || begin != 0 || end != static_cast<float>(result);
  };
  const bool needs_rows = differs(image.width, size.width, box.left, box.right);
  const bool needs_columns = differs(image.height, size.height, box.top, box.bottom);
  const Taps vertical = make_taps(image.height, box.top, box.bottom, size.height, kernel);
  const InstructionSet set = widest_instruction_set();
  if (!needs_rows) return resample_columns(image, 0, vertical, set);
  const int64_t first_row = vertical.ranges.front().first;
  const int64_t end_row = vertical.ranges.back().first + vertical.ranges.back().count;
  const Taps horizontal = make_taps(image.width, box.left, box.right, size.width, kernel);
  Image result = resample_rows(image, first_row, end_row - first_row, horizontal, set);
  return needs_columns ? resample_columns(result, first_row, vertical, set) : result;
}

}  // namespace

Image resize(const Image& image, ImageSize size, Filter filter,
             const std::optional<SourceBox>& given) {
  const SourceBox box = given.value_or(whole(image));
  COLOSSAL_CHECK(size.height >= 1 && size.width >= 1, "size {} x {}", size.width, size.height);
  COLOSSAL_CHECK(box.left >= 0 && box.top >= 0 && box.left <= box.right && box.top <= box.bottom &&
                     box.right <= static_cast<float>(image.width) &&
                     box.bottom <= static_cast<float>(image.height),
                 "box from ({}, {}) to ({}, {}) in an image of {} x {}", box.left, box.top,
                 box.right, box.bottom, image.width, image.height);
  // Pillow resizes the columns of a very tall image first.
  if (image.height > image.width * 100 && size.height < image.height) {
    const Image shorter = resize_at_once(image, {size.height, image.width}, filter,
                                         {0, box.top, static_cast<float>(image.width), box.bottom});
    return resize_at_once(shorter, size, filter,
                          {box.left, 0, box.right, static_cast<float>(size.height)});
  }
  return resize_at_once(image, size, filter, box);
}

}  // namespace colossal::image
