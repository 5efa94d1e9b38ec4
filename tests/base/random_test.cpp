#include "colossal/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "colossal/base/inverse_normal.h"

namespace colossal {
namespace {

struct KnownAnswer {
  RandomBlock counter;
  RandomKey key;
  RandomBlock expected;
};

// The known answers are those of Random123's kat_vectors, "philox4x32 10".
TEST(Philox, GivesTheKnownAnswers) {
  const KnownAnswer answers[] = {
      {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       {0xffffffff, 0xffffffff},
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {0xa4093822, 0x299f31d0},
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const KnownAnswer& answer : answers) {
    const RandomBlock block = philox(answer.key, answer.counter);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], answer.expected.word[i]);
  }
}

TEST(Philox, AGroupOfARowHoldsItsBlocksWordForWord) {
  const RandomRow row{{1, 2}, {3, 4, 5}};
  uint32_t words[kRandomGroup];
  random_words(row, 7, words);
  for (uint32_t w = 0; w < kRandomGroup; ++w) {
    const RandomBlock block = philox(row.key, {{3, 4, 5, 16 * 7 + w % 16}});
    EXPECT_EQ(words[w], block.word[w / 16]);
  }
}

// Runs are reproducible only if these numbers never change: they determine every model.
TEST(RandomKeys, StayWhatTheyAre) {
  const RandomKey key = random_key(1, 2, "name");
  EXPECT_EQ(random_key(1, 2, "name"), key);
  EXPECT_EQ(key.low, 1832557503u);
  EXPECT_EQ(key.high, 593787784u);
  EXPECT_EQ(random_uniform(key, 3, 4), 0.11505446175170775);
  EXPECT_NEAR(random_normal(key, 3, 4), -1.2000783227442875, 1e-15);
}

TEST(RandomKeys, DifferForEverySeedStepNameAndIndex) {
  std::set<std::pair<uint32_t, uint32_t>> keys;
  int count = 0;
  const auto add = [&](RandomKey key) {
    keys.insert({key.low, key.high});
    ++count;
  };
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (uint64_t step : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
      for (const char* name : {"", "a", "b", "ab", "ba"}) {
        const RandomKey key = random_key(seed, step, name);
        add(key);
        for (uint64_t index : {0, 1, 2}) add(random_subkey(key, index));
      }
    }
  }
  EXPECT_EQ(static_cast<int>(keys.size()), count);
}

TEST(RandomNumbers, UniformsFillTheUnitIntervalEvenly) {
  const RandomKey key = random_key(5, 0, "uniform");
  constexpr int kCount = 100'000, kBins = 20;
  std::vector<int> bins(kBins);
  for (int i = 0; i < kCount; ++i) {
    const double value = random_uniform(key, i, 0);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    ++bins[static_cast<int>(value * kBins)];
  }
  for (const int bin : bins) EXPECT_NEAR(bin, kCount / kBins, 5 * std::sqrt(kCount / kBins));
}

TEST(RandomNumbers, OpenUniformIsSymmetricAndNeverZeroOrOne) {
  EXPECT_EQ(open_uniform(0, 0), 0x1p-53);
  EXPECT_EQ(open_uniform(~0u, ~0u), 1 - 0x1p-53);
  EXPECT_EQ(open_uniform(0x12345678, 0x9abcd000) + open_uniform(~0x12345678u, ~0x9abcd000u), 1);
}

TEST(RandomNumbers, NormalsHaveTheMomentsAndTailsOfTheNormalDistribution) {
  const RandomKey key = random_key(6, 0, "normal");
  constexpr int kCount = 200'000;
  double sums[5] = {};
  int beyond_two = 0, beyond_three = 0;
  for (int i = 0; i < kCount; ++i) {
    const double z = random_normal(key, i, 1);
    for (int power = 1; power <= 4; ++power) sums[power] += std::pow(z, power);
    beyond_two += std::abs(z) > 2;
    beyond_three += std::abs(z) > 3;
  }
  // The tolerance of each mean is five standard errors.
  const double unit = 5 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(sums[1] / kCount, 0, unit);
  EXPECT_NEAR(sums[2] / kCount, 1, unit * std::sqrt(2));
  EXPECT_NEAR(sums[3] / kCount, 0, unit * std::sqrt(15));
  EXPECT_NEAR(sums[4] / kCount, 3, unit * std::sqrt(96));
  EXPECT_NEAR(beyond_two, 0.0455003 * kCount, 5 * std::sqrt(0.0455003 * kCount));
  EXPECT_NEAR(beyond_three, 0.0026998 * kCount, 5 * std::sqrt(0.0026998 * kCount));
}

TEST(ExactLog, AgreesWithTheLibraryTo1e15) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(exact_log(x), std::log(x), 1e-15 * std::abs(std::log(x)));
  }
  for (double x = 0.5; x < 2; x += 0.001) {
    EXPECT_NEAR(exact_log(x), std::log(x), 1e-15 * std::abs(std::log(x)) + 1e-300);
  }
  EXPECT_EQ(exact_log(1), 0);
}

// The cumulative distribution function of the result must be p again. Its relative condition number
// is x * density(x) / p, so this allows only a small error of x, in the middle and in both tails.
TEST(InverseNormal, InvertsTheDistributionTo1e14) {
  const auto check = [](double p) {
    const double x = inverse_normal_cdf(p);
    const double back = 0.5 * std::erfc(-x / std::sqrt(2.0));
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
    EXPECT_NEAR(back / density, p / density, 1e-14 * (1 + std::abs(x)) + 2e-16 * p / density) << p;
  };
  for (double p = 0x1p-53; p < 0.5; p *= 1.1) check(p);
  for (double p = 0.0005; p < 1; p += 0.0005) check(p);
  for (double p : {0.0749999, 0.0750001, 0.925, 1.3e-11, 1.4e-11, 1 - 0x1p-53}) check(p);
}

TEST(InverseNormal, IsOddAboutOneHalf) {
  EXPECT_EQ(inverse_normal_cdf(0.5), 0);
  for (double p : {0x1p-53, 0x1p-40, 0x1p-20, 0x1.8p-4, 0x1p-3, 0x1.4p-2}) {
    EXPECT_EQ(inverse_normal_cdf(p), -inverse_normal_cdf(1 - p));
  }
}

}  // namespace
}  // namespace colossal
