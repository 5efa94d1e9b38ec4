// Same numbers: every layout against the serial run, in fp64 and fp32.
#include <gtest/gtest.h>

#include "tests/support/pairwise.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

struct Case {
  int ranks;
  int zero;
  int64_t micro_batch;  // 0: no accumulation
  double dropout;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return fmt::format("ranks{}_zero{}_micro{}_dropout{}", info.param.ranks, info.param.zero,
                     info.param.micro_batch, info.param.dropout > 0 ? "on" : "off");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int ranks : {1, 2, 3, 4}) {
    for (int zero : {0, 1}) {
      for (int64_t micro_batch : {0, 2}) {
        for (double dropout : {0.0, 0.2}) cases.push_back({ranks, zero, micro_batch, dropout});
      }
    }
  }
  return cases;
}

TinyTraining training_of(const Case& layout, at::ScalarType type) {
  TinyTraining training;
  training.model = tiny_gpt2(layout.dropout);
  training.layout.zero = layout.zero;
  training.micro_batch = layout.micro_batch;
  training.compute = training.gradient = type;
  training.steps = 50;
  training.learning_rate = 3e-3;
  return training;
}

// The reference of a case: one rank, stage 0, no accumulation.
const TinyResult& serial(double dropout, at::ScalarType type) {
  static std::map<std::pair<double, at::ScalarType>, TinyResult> results;
  const auto key = std::make_pair(dropout, type);
  if (!results.contains(key)) {
    results[key] = train_tiny(training_of({1, 0, 0, dropout}, type), 1);
  }
  return results[key];
}

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, Fp64EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kDouble);
  expect_same(train_tiny(training, GetParam().ranks), serial(GetParam().dropout, at::kDouble), 1e-9,
              training);
}

TEST_P(Parity, Fp32EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kFloat);
  expect_same(train_tiny(training, GetParam().ranks), serial(GetParam().dropout, at::kFloat), 1e-4,
              training);
}

std::vector<double> settings_of(const Case& c) {
  return {static_cast<double>(c.ranks), static_cast<double>(c.zero),
          static_cast<double>(c.micro_batch), c.dropout};
}

INSTANTIATE_TEST_SUITE_P(Layouts, Parity, testing::ValuesIn(pairwise(all_cases(), settings_of)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, Parity, testing::ValuesIn(all_cases()), name_of);

TEST(ParityOfLabels, SomeIgnoredAndAllOfOneRank) {
  TinyTraining training;
  training.ignored = [](int64_t sample, int64_t position) {
    return sample < 4 || position % 3 == 0;
  };
  const TinyResult reference = train_tiny(training, 1);
  for (int zero : {0, 1}) {
    training.layout.zero = zero;
    expect_same(train_tiny(training, 3), reference, 1e-9, training);  // rank 0 has no label at all
  }
}

TEST(ParityOfLabels, NoneAtAllMovesNothing) {
  TinyTraining training;
  training.steps = 2;
  training.ignored = [](int64_t, int64_t) { return true; };
  const TinyResult result = train_tiny(training, 2);
  EXPECT_EQ(result.losses, (std::vector<double>{0, 0}));
  training.steps = 0;
  const TinyResult untouched = train_tiny(training, 2);
  for (const auto& [name, weight] : untouched.weights) {
    EXPECT_TRUE(at::equal(result.weights.at(name), weight)) << name;
  }
}

TEST(Parity, TwoRunsGiveTheSameBits) {
  TinyTraining training = training_of({3, 1, 2, 0.2}, at::kFloat);
  training.steps = 5;
  const TinyResult a = train_tiny(training, 3);
  const TinyResult b = train_tiny(training, 3);
  EXPECT_EQ(a.losses, b.losses);
  for (const auto& [name, weight] : a.weights)
    EXPECT_TRUE(at::equal(b.weights.at(name), weight)) << name;
}

// The suite must be able to fail: another seed of the data is told apart.
TEST(Parity, AnotherOrderOfSamplesIsNoticed) {
  TinyTraining training;
  const TinyResult reference = train_tiny(training, 1);
  training.one_batch = true;
  const TinyResult other = train_tiny(training, 1);
  EXPECT_GT(std::abs(other.losses[1] - reference.losses[1]), 1e-6);
}

}  // namespace
}  // namespace colossal::test
