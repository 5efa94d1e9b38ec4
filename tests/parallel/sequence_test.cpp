// Sequence parallelism, alone and with everything else: the same numbers as the serial run, and the
// bytes of the laws.
#include <gtest/gtest.h>

#include "tests/parallel/uneven_training.h"
#include "tests/support/pairwise.h"

namespace colossal::test {
namespace {

struct Case {
  int sp;
  int tp;
  int dp;
  int zero;
  int64_t micro_batch;
  double dropout;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return fmt::format("sp{}_tp{}_dp{}_zero{}_micro{}_dropout{}", info.param.sp, info.param.tp,
                     info.param.dp, info.param.zero, info.param.micro_batch,
                     info.param.dropout > 0 ? "on" : "off");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int zero : {0, 1}) {
    for (double dropout : {0.0, 0.2}) {
      for (int sp : {2, 3, 4}) cases.push_back({sp, 1, 1, zero, 5, dropout});
      cases.push_back({2, 1, 2, zero, 0, dropout});
      cases.push_back({2, 2, 1, zero, 0, dropout});
      cases.push_back({3, 2, 1, zero, 4, dropout});
      cases.push_back({2, 2, 2, zero, 4, dropout});
    }
  }
  return cases;
}

TinyTraining training_of(const Case& layout, at::ScalarType type) {
  TinyTraining training = uneven(layout.dropout, type);
  training.sp = layout.sp;
  training.tp = layout.tp;
  training.zero = layout.zero;
  training.micro_batch = layout.micro_batch;
  return training;
}

class SequenceParity : public testing::TestWithParam<Case> {
 protected:
  static int ranks() { return GetParam().sp * GetParam().tp * GetParam().dp; }
};

TEST_P(SequenceParity, Fp64EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kDouble);
  expect_same(train_tiny(training, ranks()), serial(GetParam().dropout, at::kDouble), 1e-9,
              training);
}

TEST_P(SequenceParity, Fp32EqualsSerial) {
  const TinyTraining training = training_of(GetParam(), at::kFloat);
  expect_same(train_tiny(training, ranks()), serial(GetParam().dropout, at::kFloat), 1e-4,
              training);
}

std::vector<double> settings_of(const Case& c) {
  return {static_cast<double>(c.sp),          static_cast<double>(c.tp),
          static_cast<double>(c.dp),          static_cast<double>(c.zero),
          static_cast<double>(c.micro_batch), c.dropout};
}

INSTANTIATE_TEST_SUITE_P(Layouts, SequenceParity,
                         testing::ValuesIn(pairwise(all_cases(), settings_of)), name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, SequenceParity, testing::ValuesIn(all_cases()), name_of);

TEST(Sequence, AllLabelsOfOneShareIgnored) {
  TinyTraining training = uneven(0, at::kDouble);
  training.ignored = [](int64_t, int64_t position) { return position < 5; };
  const TinyResult reference = train_tiny(training, 1);
  training.sp = 2;
  expect_same(train_tiny(training, 2), reference, 1e-9, training);
}

// docs/laws.md, "Ulysses": what a rank has of queries, keys, values and results, but its own heads.
TEST(Sequence, BytesOfUlyssesEqualTheLaw) {
  for (const int sp : {2, 3}) {  // the heads divide by both, the positions by 2
    TinyTraining training = uneven(0, at::kDouble);
    training.sp = sp;
    training.steps = 1;
    const TinyResult result = train_tiny(training, sp);
    int64_t sent = 0;
    for (const auto& traffic : result.traffic) {
      for (const auto& [key, bytes] : traffic) {
        EXPECT_EQ(bytes.law_bytes, bytes.wire_bytes) << comm::reason_name(key.reason);
        if (key.reason == comm::Reason::sequence) sent += bytes.law_bytes;
      }
    }
    const models::gpt2::Config& model = training.model;
    const int64_t activation = training.global_batch * training.sequence * model.n_embd * 8;
    // Over all ranks (c-1)/c of 4 activations, forward and backward.
    EXPECT_EQ(sent, model.n_layer * 2 * 4 * activation * (sp - 1) / sp) << sp;
  }
}

}  // namespace
}  // namespace colossal::test
