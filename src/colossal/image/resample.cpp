#include "colossal/image/resample.h"

#include <algorithm>
#include <cstring>

namespace colossal::image {
namespace {

constexpr int64_t kStripRows = 16;
// Values that are summed side by side: those of one column of a strip of rows.
constexpr int64_t kBlock = kStripRows * kChannels;

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

// Some of the functions below are compiled for a wider instruction set than the rest. What they
// call is therefore always_inline. Loops over blocks have a constant length, so that they become
// vector instructions.

// Writes the sums of `count` lines of kBlock values, `stride` apart, times their weights.
[[gnu::always_inline]] inline void weigh_block(const uint8_t* lines, int64_t stride,
                                               const int32_t* weights, int64_t count,
                                               uint8_t* out) {
  int32_t sums[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) sums[i] = 1 << (kWeightBits - 1);
  for (int64_t k = 0; k < count; ++k) {
    const uint8_t* const line = lines + k * stride;
    const int32_t weight = weights[k];
    for (int64_t i = 0; i < kBlock; ++i) sums[i] += line[i] * weight;
  }
  for (int64_t i = 0; i < kBlock; ++i) {
    const int32_t value = sums[i] >> kWeightBits;
    const int32_t above = value < 0 ? 0 : value;
    out[i] = static_cast<uint8_t>(above > 255 ? 255 : above);
  }
}

// Weighs lines of `length` values, of which there are enough for a block or more.
[[gnu::always_inline]] inline void weigh_lines(const uint8_t* lines, int64_t length,
                                               const int32_t* weights, int64_t count,
                                               uint8_t* out) {
  for (int64_t i = 0; i + kBlock < length; i += kBlock) {
    weigh_block(lines + i, length, weights, count, out + i);
  }
  // The last block overlaps the one before it.
  weigh_block(lines + length - kBlock, length, weights, count, out + length - kBlock);
}

// columns: kBlock values for each pixel along a strip of rows.
[[gnu::always_inline]] inline void weigh_columns(const uint8_t* columns, const Taps& taps,
                                                 uint8_t* out) {
  for (int64_t x = 0; x < std::ssize(taps.ranges); ++x) {
    const Taps::Range range = taps.ranges[static_cast<size_t>(x)];
    weigh_block(columns + range.first * kBlock, kBlock, taps.weights_of(x), range.count,
                out + x * kBlock);
  }
}

using WeighLines = void (*)(const uint8_t*, int64_t, const int32_t*, int64_t, uint8_t*);
using WeighColumns = void (*)(const uint8_t*, const Taps&, uint8_t*);

void lines_baseline(const uint8_t* lines, int64_t length, const int32_t* weights, int64_t count,
                    uint8_t* out) {
  weigh_lines(lines, length, weights, count, out);
}
void columns_baseline(const uint8_t* columns, const Taps& taps, uint8_t* out) {
  weigh_columns(columns, taps, out);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void lines_avx2(const uint8_t* lines, int64_t length,
                                        const int32_t* weights, int64_t count, uint8_t* out) {
  weigh_lines(lines, length, weights, count, out);
}
[[gnu::target("avx2")]] void columns_avx2(const uint8_t* columns, const Taps& taps, uint8_t* out) {
  weigh_columns(columns, taps, out);
}
#endif

WeighLines weigh_lines_for(InstructionSet set) {
#if defined(__x86_64__)
  if (set != InstructionSet::baseline) return lines_avx2;
#endif
  return lines_baseline;
}

WeighColumns weigh_columns_for(InstructionSet set) {
#if defined(__x86_64__)
  if (set != InstructionSet::baseline) return columns_avx2;
#endif
  return columns_baseline;
}

void copy_pixel(const uint8_t* from, uint8_t* to) {
  std::memcpy(to, from, kChannels);
}

// Copies a pixel and the byte after it, which takes one instruction.
void copy_pixel_and_byte(const uint8_t* from, uint8_t* to) {
  std::memcpy(to, from, kChannels + 1);
}

// Writes the pixels of `rows` rows column by column. columns: has a byte more than kBlock values
// for each column.
void rows_to_columns(const Image& image, int64_t first_row, int64_t rows, uint8_t* columns) {
  const uint8_t* const first = image.row(first_row);
  for (int64_t x = 0; x + 1 < image.width; ++x) {
    for (int64_t y = 0; y < rows; ++y) {
      // The byte after the pixel is overwritten by the next pixel.
      copy_pixel_and_byte(first + y * image.row_bytes() + x * kChannels,
                          columns + x * kBlock + y * kChannels);
    }
  }
  const int64_t last = image.width - 1;
  for (int64_t y = 0; y < rows; ++y) {
    copy_pixel(first + y * image.row_bytes() + last * kChannels,
               columns + last * kBlock + y * kChannels);
  }
}

void columns_to_rows(const uint8_t* columns, int64_t first_row, int64_t rows, Image& image) {
  for (int64_t y = 0; y < rows; ++y) {
    uint8_t* const row = image.row(first_row + y);
    for (int64_t x = 0; x < image.width; ++x) {
      copy_pixel(columns + x * kBlock + y * kChannels, row + x * kChannels);
    }
  }
}

// Resamples columns of rows that are shorter than a block.
void resample_short_rows(const Image& image, int64_t first_row, const Taps& taps, Image& result) {
  for (int64_t y = 0; y < result.height; ++y) {
    const auto [first, count] = taps.ranges[static_cast<size_t>(y)];
    for (int64_t i = 0; i < image.row_bytes(); ++i) {
      int32_t sum = 1 << (kWeightBits - 1);
      for (int64_t k = 0; k < count; ++k) {
        sum += image.row(first - first_row + k)[i] * taps.weights_of(y)[k];
      }
      result.row(y)[i] = to_byte(sum);
    }
  }
}

}  // namespace

Image resample_rows(const Image& image, int64_t first_row, int64_t rows, const Taps& taps,
                    InstructionSet set) {
  const int64_t width = std::ssize(taps.ranges);
  const WeighColumns weigh = weigh_columns_for(set);
  Image result = Image::of_size({rows, width});
  std::vector<uint8_t> from(static_cast<size_t>(image.width * kBlock + 1));
  std::vector<uint8_t> to(static_cast<size_t>(width * kBlock));
  for (int64_t y = 0; y < rows; y += kStripRows) {
    const int64_t count = std::min(kStripRows, rows - y);
    rows_to_columns(image, first_row + y, count, from.data());
    weigh(from.data(), taps, to.data());
    columns_to_rows(to.data(), y, count, result);
  }
  return result;
}

Image resample_columns(const Image& image, int64_t first_row, const Taps& taps,
                       InstructionSet set) {
  const int64_t height = std::ssize(taps.ranges), length = image.row_bytes();
  Image result = Image::of_size({height, image.width});
  if (length < kBlock) {
    resample_short_rows(image, first_row, taps, result);
    return result;
  }
  const WeighLines weigh = weigh_lines_for(set);
  for (int64_t y = 0; y < height; ++y) {
    const auto [first, count] = taps.ranges[static_cast<size_t>(y)];
    weigh(image.row(first - first_row), length, taps.weights_of(y), count, result.row(y));
  }
  return result;
}

}  // namespace colossal::image
