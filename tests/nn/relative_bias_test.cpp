#include <gtest/gtest.h>

#include <vector>

#include "colossal/nn/dense_builder.h"

namespace colossal::nn {
namespace {

// Distances at which a new bucket begins, from 0 on; from there on, one bucket after the other.
std::vector<int64_t> borders_of(const RelativeBiasOptions& options, int64_t sign) {
  std::vector<int64_t> borders;
  int64_t last = relative_bucket(0, options);
  for (int64_t far = 1; far < 140; ++far) {
    const int64_t bucket = relative_bucket(sign * far, options);
    if (bucket != last) borders.push_back(far);
    last = bucket;
  }
  return borders;
}

// Of transformers' T5Attention._relative_position_bucket().
TEST(RelativeBias, HasTheBucketsOfTransformers) {
  const RelativeBiasOptions both{.heads = 1};
  const std::vector<int64_t> borders{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  EXPECT_EQ(borders_of(both, -1), borders);
  EXPECT_EQ(borders_of(both, 1), borders);
  EXPECT_EQ(relative_bucket(0, both), 0);
  EXPECT_EQ(relative_bucket(-139, both), 15);
  EXPECT_EQ(relative_bucket(1, both), 17);
  EXPECT_EQ(relative_bucket(139, both), 31);
  const RelativeBiasOptions before{.heads = 1, .bidirectional = false};
  EXPECT_EQ(borders_of(before, -1),
            std::vector<int64_t>({1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                  19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}));
  EXPECT_EQ(relative_bucket(-139, before), 31);
  EXPECT_EQ(borders_of(before, 1), std::vector<int64_t>());
  EXPECT_EQ(relative_bucket(5, before), 0);
  EXPECT_EQ(borders_of({.heads = 1, .buckets = 8, .max_distance = 10}, -1),
            std::vector<int64_t>({1, 2, 5}));
}

TEST(RelativeBias, TakesTheRowOfEachDistance) {
  DenseBuilder build;
  const RelativeBiasOptions options{.heads = 3, .buckets = 8, .max_distance = 10};
  const auto layer = build.relative_bias("bias", options);
  const ParameterHandle table = build.parameters().front();
  EXPECT_EQ(table->name, "bias.weight");
  table->tensor = at::arange(24, at::kDouble).view({8, 3});
  const at::Tensor bias = layer->forward(make_step_context(1, 1, at::kCPU));
  ASSERT_EQ(bias.sizes(), at::IntArrayRef({3, 21}));
  for (int64_t head = 0; head < 3; ++head) {
    for (int64_t d = -10; d <= 10; ++d) {
      EXPECT_EQ(bias[head][10 + d].item<double>(),
                static_cast<double>(3 * relative_bucket(d, options) + head));
    }
  }
}

}  // namespace
}  // namespace colossal::nn
