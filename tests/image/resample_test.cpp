#include "colossal/image/resample.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/image/stored_image.h"

namespace colossal::image {
namespace {

// Taps with random ranges and weights, whose sums may be below 0 and above 255.
Taps random_taps(int64_t source, int64_t result, std::mt19937& random) {
  Taps taps{.most = 9};
  taps.weights.resize(static_cast<size_t>(result * taps.most));
  for (int32_t& weight : taps.weights) {
    weight = static_cast<int32_t>(random() % (1 << (kWeightBits - 2))) - (1 << (kWeightBits - 3));
  }
  for (int64_t i = 0; i < result; ++i) {
    const auto first = static_cast<int64_t>(random() % static_cast<uint32_t>(source));
    const auto count = static_cast<int64_t>(1 + random() % static_cast<uint32_t>(taps.most));
    taps.ranges.push_back({first, std::min(count, source - first)});
  }
  return taps;
}

uint8_t weighted(const Image& image, bool along_row, int64_t at, size_t i, const Taps& taps,
                 int64_t channel) {
  int32_t sum = 1 << (kWeightBits - 1);
  for (int64_t k = 0; k < taps.ranges[i].count; ++k) {
    const int64_t along = taps.ranges[i].first + k;
    const int64_t y = along_row ? at : along, x = along_row ? along : at;
    sum += image.row(y)[x * kChannels + channel] * taps.weights_of(static_cast<int64_t>(i))[k];
  }
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

// The definition, value by value.
Image resampled(const Image& image, bool along_rows, const Taps& taps) {
  const int64_t count = std::ssize(taps.ranges);
  Image result =
      Image::of_size(along_rows ? ImageSize{image.height, count} : ImageSize{count, image.width});
  for (int64_t y = 0; y < result.height; ++y) {
    for (int64_t x = 0; x < result.width; ++x) {
      for (int64_t channel = 0; channel < kChannels; ++channel) {
        result.row(y)[x * kChannels + channel] =
            weighted(image, along_rows, along_rows ? y : x, static_cast<size_t>(along_rows ? x : y),
                     taps, channel);
      }
    }
  }
  return result;
}

TEST(Resample, AllInstructionSetsEqualTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const int64_t height = 1 + random() % 40, width = 1 + random() % 70;
    Image image = Image::of_size({height, width});
    for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random());
    const Taps along_rows = random_taps(width, 1 + random() % 50, random);
    const Taps along_columns = random_taps(height, 1 + random() % 50, random);
    for (const auto set : {InstructionSet::baseline, widest_instruction_set()}) {
      EXPECT_EQ(difference(resample_rows(image, 0, height, along_rows, set),
                           resampled(image, true, along_rows)),
                "equal")
          << name_of(set) << " " << height << "x" << width;
      EXPECT_EQ(difference(resample_columns(image, 0, along_columns, set),
                           resampled(image, false, along_columns)),
                "equal")
          << name_of(set) << " " << height << "x" << width;
    }
  }
}

}  // namespace
}  // namespace colossal::image
