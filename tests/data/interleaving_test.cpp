#include "colossal/data/interleaving.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace colossal::data {
namespace {

const std::vector<std::vector<double>> kWeights = {
    {1}, {1, 1}, {0.7, 0.3}, {3, 1e-3, 5, 0.2, 1}, {1e-9, 1}, {1, 2, 3, 4, 5, 6, 7}};

// Each source is read from its first sample on, without gaps.
TEST(Interleaving, CountsWhatItHasDrawnOfEachSource) {
  for (const auto& weights : kWeights) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Interleaving interleaving(weights, seed);
      std::vector<int64_t> drawn(weights.size());
      for (int64_t position = 0; position < 5000; ++position) {
        const auto [source, index] = interleaving.at(position);
        ASSERT_EQ(index, drawn[source]++) << position;
      }
    }
  }
}

TEST(Interleaving, KeepsToTheWeightsAtEveryMoment) {
  for (const auto& weights : kWeights) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double tolerance = 1 + std::log2(static_cast<double>(weights.size()));
    const Interleaving interleaving(weights, 5);
    std::vector<int64_t> drawn(weights.size());
    for (int64_t position = 0; position < 20'000; ++position) {
      ++drawn[interleaving.at(position).source];
      for (size_t i = 0; i < weights.size(); ++i) {
        const double expected = static_cast<double>(position + 1) * weights[i] / total;
        ASSERT_LE(std::abs(static_cast<double>(drawn[i]) - expected), tolerance) << position;
      }
    }
  }
}

TEST(Interleaving, FarOnItIsAsItWasAtTheBeginning) {
  const Interleaving interleaving(std::vector{0.6, 0.4}, 1);
  const int64_t far = int64_t{1} << 50;
  int64_t of_first = 0;
  for (int64_t position = far; position < far + 1000; ++position) {
    of_first += interleaving.at(position).source == 0;
  }
  EXPECT_NEAR(static_cast<double>(of_first), 600, 2);
  const auto [source, index] = interleaving.at(far);
  const double expected = static_cast<double>(far) * (source == 0 ? 0.6 : 0.4);
  EXPECT_NEAR(static_cast<double>(index) / expected, 1, 1e-9);
}

TEST(Interleaving, DependsOnTheSeed) {
  const std::vector<double> weights = {0.9, 0.05, 0.05};
  int different = 0;
  for (int64_t position = 0; position < 100; ++position) {
    different += Interleaving(weights, 1).at(position).source !=
                 Interleaving(weights, 2).at(position).source;
  }
  EXPECT_GT(different, 0);
}

}  // namespace
}  // namespace colossal::data
