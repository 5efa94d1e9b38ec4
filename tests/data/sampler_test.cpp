#include "colossal/data/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "colossal/base/error.h"

namespace colossal::data {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> epoch(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < order.num_samples(); ++i) {
    samples.push_back(order.sample_at(epoch * order.num_samples() + i));
  }
  return samples;
}

std::vector<int64_t> count_up(int64_t size) {
  std::vector<int64_t> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Returns how far chi-square is above its mean, in standard deviations, for counts that should be
// equal.
double chi_square_excess(const std::vector<int64_t>& counts) {
  const double expected =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0})) /
      static_cast<double>(counts.size());
  double chi_square = 0;
  for (const int64_t count : counts) {
    chi_square += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected);
  }
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (chi_square / expected - freedom) / std::sqrt(2 * freedom);
}

TEST(SampleOrder, EveryEpochReadsEverySampleOnce) {
  for (const int64_t size : {1,  2,   3,   4,   5,   7,    8,    9,     15,    16,   17,
                             97, 100, 255, 256, 257, 1000, 7919, 65536, 65537, 99991}) {
    const SampleOrder order(size, 1);
    for (const int64_t number : {0, 1, 1'000'000}) {
      std::vector<int64_t> samples = epoch(order, number);
      std::ranges::sort(samples);
      ASSERT_EQ(samples, count_up(size)) << "epoch " << number;
    }
  }
}

TEST(SampleOrder, WorksForMoreSamplesThanFitInMemory) {
  const int64_t size = (int64_t{1} << 50) + 7;
  const SampleOrder order(size, 3);
  std::set<int64_t> samples;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t sample = order.sample_at(size / 1000 * i);
    EXPECT_GE(sample, 0);
    EXPECT_LT(sample, size);
    samples.insert(sample);
  }
  EXPECT_EQ(samples.size(), 1000u);
}

TEST(SampleOrder, DependsOnSeedAndEpoch) {
  const SampleOrder order(1000, 1);
  EXPECT_EQ(epoch(order, 2), epoch(SampleOrder(1000, 1), 2));
  EXPECT_NE(epoch(order, 0), epoch(order, 1));
  EXPECT_NE(epoch(order, 0), epoch(SampleOrder(1000, 2), 0));
  // A seed's second epoch is not the next seed's first.
  EXPECT_NE(epoch(order, 1), epoch(SampleOrder(1000, 2), 0));
  EXPECT_NE(epoch(order, 0), count_up(1000));
  EXPECT_EQ(order.epoch_at(999), 0);
  EXPECT_EQ(order.epoch_at(1000), 1);
}

// Resumed runs and other numbers of ranks rely on this order, so that it must never change.
TEST(SampleOrder, StaysTheSameForEver) {
  EXPECT_THAT(epoch(SampleOrder(10, 1), 0), ElementsAre(2, 9, 3, 7, 8, 1, 4, 5, 6, 0));
}

TEST(SampleOrder, EveryPermutationOfAFewIsEquallyLikely) {
  for (const int64_t size : {2, 3, 4, 5, 6}) {
    std::map<std::vector<int64_t>, int64_t> counts;
    std::vector<int64_t> permutation = count_up(size);
    do counts[permutation] = 0;
    while (std::ranges::next_permutation(permutation).found);
    const int64_t draws = 100 * std::ssize(counts);
    for (int64_t i = 0; i < draws; ++i) ++counts.at(epoch(SampleOrder(size, i % 7), i));
    std::vector<int64_t> values;
    for (const auto& [_, count] : counts) values.push_back(count);
    EXPECT_LT(chi_square_excess(values), 5) << "of " << size;
  }
}

TEST(SampleOrder, EverySampleIsEquallyLikelyAtEveryPosition) {
  for (const int64_t size : {16, 30, 37}) {
    std::vector<int64_t> counts(size * size);
    for (int64_t number = 0; number < 1000; ++number) {
      const std::vector<int64_t> samples = epoch(SampleOrder(size, 5), number);
      for (int64_t i = 0; i < size; ++i) ++counts[i * size + samples[i]];
    }
    EXPECT_LT(std::abs(chi_square_excess(counts)), 5) << "of " << size;
  }
}

// The position of a sample says nothing about its neighbour, in one epoch of many samples.
TEST(SampleOrder, NeighboursAreScattered) {
  for (const int64_t size : {100'000, 99'991}) {
    const std::vector<int64_t> samples = epoch(SampleOrder(size, 9), 0);
    constexpr int64_t kBins = 20;
    std::vector<int64_t> counts(kBins * kBins);
    for (int64_t i = 0; i + 1 < size; ++i) {
      ++counts[samples[i] * kBins / size * kBins + samples[i + 1] * kBins / size];
    }
    EXPECT_LT(std::abs(chi_square_excess(counts)), 5);
    std::vector<int64_t> distances(kBins);
    for (int64_t i = 0; i + 1 < size; ++i) {
      ++distances[(samples[i + 1] - samples[i] + size) % size * kBins / size];
    }
    EXPECT_LT(std::abs(chi_square_excess(distances)), 5);
  }
}

TEST(TrainingMicroBatches, SharesAreContiguousAndCutIntoForwards) {
  BatchShape shape{.global_batch = 10, .micro_batch = 2, .num_replicas = 2};
  EXPECT_THAT(training_micro_batches(shape, 0), ElementsAre(Range{0, 2}, Range{2, 4}, Range{4, 5}));
  shape.replica = 1;
  EXPECT_THAT(training_micro_batches(shape, 3),
              ElementsAre(Range{35, 37}, Range{37, 39}, Range{39, 40}));
  shape.micro_batch = 0;
  EXPECT_THAT(training_micro_batches(shape, 0), ElementsAre(Range{5, 10}));
  shape.micro_batch = 64;
  EXPECT_THAT(training_micro_batches(shape, 0), ElementsAre(Range{5, 10}));
  shape.num_replicas = 3;
  EXPECT_THROW(training_micro_batches(shape, 0), InternalError);
}

TEST(TrainingMicroBatches, ReplicasTogetherReadTheStepAtEveryLayout) {
  for (const int num_replicas : {1, 2, 3, 4, 6, 12}) {
    for (const int64_t micro_batch : {0, 1, 2, 5, 12}) {
      std::vector<int64_t> positions;
      for (int replica = 0; replica < num_replicas; ++replica) {
        for (const Range& range :
             training_micro_batches({12, micro_batch, num_replicas, replica}, 7)) {
          EXPECT_FALSE(range.empty());
          for (int64_t i = range.begin; i < range.end; ++i) positions.push_back(i - 7 * 12);
        }
      }
      EXPECT_EQ(positions, count_up(12));
    }
  }
}

// A corpus of exactly one global batch: every step is an epoch.
TEST(TrainingMicroBatches, ACorpusOfOneGlobalBatchIsReadWholeInEveryStep) {
  for (const int64_t size : {1, 2, 6, 16}) {
    const SampleOrder order(size, 11);
    for (int64_t step = 0; step < 20; ++step) {
      std::vector<int64_t> samples;
      for (const Range& range :
           training_micro_batches({.global_batch = size, .micro_batch = 4}, step)) {
        for (int64_t i = range.begin; i < range.end; ++i) samples.push_back(order.sample_at(i));
      }
      std::ranges::sort(samples);
      EXPECT_EQ(samples, count_up(size));
    }
  }
}

TEST(EvaluationMicroBatches, ReadEverySampleOnceInAsManyForwardsOnEachReplica) {
  for (const int64_t num_samples : {1, 2, 7, 8, 9, 23}) {
    for (const int num_replicas : {1, 2, 3, 4}) {
      for (const int64_t micro_batch : {0, 1, 2, 3}) {
        std::vector<int64_t> samples;
        BatchShape shape{8, micro_batch, num_replicas, 0};
        for (int64_t step = 0; step < num_evaluation_steps(shape, num_samples); ++step) {
          const size_t forwards = evaluation_micro_batches(shape, num_samples, step).size();
          EXPECT_GE(forwards, 1u);
          for (int replica = 0; replica < num_replicas; ++replica) {
            const auto ranges = evaluation_micro_batches({8, micro_batch, num_replicas, replica},
                                                         num_samples, step);
            EXPECT_EQ(ranges.size(), forwards);
            for (const Range& range : ranges) {
              EXPECT_LE(range.size(), micro_batch > 0 ? micro_batch : 8);
              for (int64_t i = range.begin; i < range.end; ++i) samples.push_back(i);
            }
          }
        }
        EXPECT_EQ(samples, count_up(num_samples));
      }
    }
  }
}

}  // namespace
}  // namespace colossal::data
