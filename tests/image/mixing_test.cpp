#include "colossal/image/mixing.h"

#include <gtest/gtest.h>

#include <cmath>

namespace colossal::image {
namespace {

constexpr int64_t kMixes = 20000;
constexpr ImageSize kSize{40, 60};

TEST(Mixing, SharesHaveTheMomentsOfBeta) {
  for (const double alpha : {0.05, 0.2, 0.8, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < kMixes; ++i) {
      const double share = random_beta(alpha, 1, i);
      ASSERT_GE(share, 0);
      ASSERT_LE(share, 1);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    // Mean 1/2, variance 1 / (4 (2 alpha + 1)); the mean's deviation is below 0.5 / sqrt(kMixes).
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kMixes, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kMixes, variance, 0.04 * variance) << alpha;
  }
}

TEST(Mixing, SharesOfBetaOneAreUniform) {
  int below[10] = {};
  for (uint64_t i = 0; i < kMixes; ++i) ++below[static_cast<int>(random_beta(1, 1, i) * 10)];
  for (const int count : below) EXPECT_NEAR(count, kMixes / 10, 170);  // 4 deviations
}

TEST(Mixing, PartnersAreNeighboursWithinAGlobalBatch) {
  const MixingOptions options{.mixup_alpha = 1};
  for (const int64_t batch : {1, 2, 6, 7}) {
    for (int64_t i = 0; i < 5 * batch; ++i) {
      const Mix mix = random_mix(options, kSize, batch, 1, i);
      EXPECT_EQ(mix.partner / batch, i / batch);
      EXPECT_EQ(random_mix(options, kSize, batch, 1, mix.partner).partner, i);
      const bool is_alone = batch % 2 == 1 && i % batch == batch - 1;
      EXPECT_EQ(mix.partner == i, is_alone);
      EXPECT_EQ(mix.share == 1, is_alone);
    }
  }
}

TEST(Mixing, TheShareOfCutMixIsThatOfThePixels) {
  const MixingOptions options{.cutmix_alpha = 1};
  double own = 0, center = 0;
  for (int64_t i = 0; i < kMixes; ++i) {
    const Mix mix = random_mix(options, kSize, 8, 1, i);
    ASSERT_TRUE(mix.box);
    ASSERT_GE(mix.box->top, 0);
    ASSERT_GE(mix.box->left, 0);
    ASSERT_LE(mix.box->top + mix.box->height, kSize.height);
    ASSERT_LE(mix.box->left + mix.box->width, kSize.width);
    ASSERT_DOUBLE_EQ(mix.share, 1 - static_cast<double>(mix.box->height * mix.box->width) /
                                        (kSize.height * kSize.width));
    own += mix.share;
    center += static_cast<double>(mix.box->left) + static_cast<double>(mix.box->width) / 2;
  }
  // Boxes are cut at the edges, so more than half of the pixels stay on average.
  EXPECT_GT(own / kMixes, 0.6);
  EXPECT_LT(own / kMixes, 0.8);
  EXPECT_NEAR(center / kMixes, kSize.width / 2.0, 1);
}

TEST(Mixing, IsChosenAsOftenAsAsked) {
  const MixingOptions options{
      .mixup_alpha = 0.5, .cutmix_alpha = 1, .cutmix_probability = 0.25, .probability = 0.8};
  int mixup = 0, cutmix = 0;
  for (int64_t i = 0; i < kMixes; ++i) {
    const Mix mix = random_mix(options, kSize, 8, 1, i);
    if (mix.partner == i) continue;
    ++(mix.box ? cutmix : mixup);
  }
  EXPECT_NEAR(cutmix, 0.2 * kMixes, 230);
  EXPECT_NEAR(mixup, 0.6 * kMixes, 280);
  EXPECT_EQ(random_mix({}, kSize, 8, 1, 3).partner, 3);
}

TEST(Mixing, IsAFunctionOfSeedAndPosition) {
  const MixingOptions options{.mixup_alpha = 1};
  const auto share = [&](uint64_t seed, int64_t position) {
    return random_mix(options, kSize, 8, seed, position).share;
  };
  EXPECT_EQ(share(1, 4), share(1, 4));
  EXPECT_NE(share(1, 4), share(1, 5));
  EXPECT_NE(share(1, 4), share(2, 4));
}

}  // namespace
}  // namespace colossal::image
