// The two passes of resize(): each pixel of the result is a weighted sum of neighbouring pixels of
// a row or of a column, in fixed point.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/cpu_features.h"
#include "colossal/image/image.h"

namespace colossal::image {

// Pixel values have 8 bits, and sums of weights may be negative or exceed 1.
inline constexpr int kWeightBits = 32 - 8 - 2;

// The pixels of the source that contribute to each pixel of the result, along one side.
struct Taps {
  struct Range {
    int64_t first;  // pixel of the source
    int64_t count;
  };
  std::vector<Range> ranges;     // for each pixel of the result
  int64_t most = 0;              // of counts
  std::vector<int32_t> weights;  // `most` for each pixel of the result, times 2^kWeightBits

  const int32_t* weights_of(int64_t i) const { return weights.data() + i * most; }
};

// Resamples each of the rows [first_row, first_row + rows) of the image. All instruction sets, of
// which the CPU must have `set`, give the same bits.
Image resample_rows(const Image& image, int64_t first_row, int64_t rows, const Taps& taps,
                    InstructionSet set);

// Resamples each column. first_row: of the source, which row 0 of the image is.
Image resample_columns(const Image& image, int64_t first_row, const Taps& taps, InstructionSet set);

}  // namespace colossal::image
