// One-dimensional tensor parallelism: the same numbers as the serial run, and the bytes of the
// laws.
#include <gtest/gtest.h>

#include "tests/parallel/uneven_training.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::tensor_1d_parity {
namespace {

std::vector<UnevenCase> all_cases() {
  std::vector<UnevenCase> cases;
  for (int tp : {2, 3, 4}) {
    for (bool tp_sequence : {false, true}) {
      for (int zero : {0, 1}) {
        for (double dropout : {0.0, 0.2}) {
          Strategy layout{.tp = tp, .zero = zero, .tp_sequence = tp_sequence};
          for (int64_t micro_batch : {0, 5}) cases.push_back({layout, micro_batch, dropout});
          layout.dp = 2;
          cases.push_back({layout, 4, dropout});
        }
      }
    }
  }
  return cases;
}

class Tensor1dParity : public UnevenParity {};

TEST_P(Tensor1dParity, Fp64EqualsSerial) {
  expect_serial(at::kDouble, 1e-9);
}

// In fp32 with the slow tests only.
class Tensor1dParityFp32 : public UnevenParity {};

TEST_P(Tensor1dParityFp32, EqualsSerial) {
  expect_serial(at::kFloat, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Tensor1dParity,
                         testing::ValuesIn(pairwise(all_cases(), uneven_settings)), uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, Tensor1dParity, testing::ValuesIn(all_cases()),
                         uneven_name);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, Tensor1dParityFp32, testing::ValuesIn(all_cases()),
                         uneven_name);

TEST(Tensor1d, LabelsIgnoredInPartAndAtAll) {
  TinyTraining training = uneven(0, at::kDouble);
  training.ignored = [](int64_t sample, int64_t position) {
    return sample < 4 || position % 3 == 0;
  };
  const TinyResult reference = train_tiny(training, 1);
  for (const bool tp_sequence : {false, true}) {
    training.layout = {.tp = 2, .tp_sequence = tp_sequence};
    expect_same(train_tiny(training, 2), reference, 1e-9, training);
  }
}

// docs/laws.md, "1D": S is one whole activation. Over all ranks an all-reduce of M sends 2 (n-1) M,
// an all-gather and a reduce-scatter (n-1) M each.
TEST(Tensor1d, BytesEqualTheLaws) {
  for (const int tp : {2, 3, 4}) {
    for (const bool tp_sequence : {false, true}) {
      TRACED_CASE(fmt::format("tp {}, tp_sequence {}", tp, tp_sequence));
      TinyTraining training = uneven(0, at::kDouble);
      training.layout = {.tp = tp, .tp_sequence = tp_sequence};
      training.steps = 1;
      const TinyResult result = train_tiny(training, tp);
      std::map<comm::Reason, int64_t> sent;
      for (const auto& traffic : result.traffic) {
        for (const auto& [key, bytes] : traffic) {
          EXPECT_EQ(bytes.law_bytes, bytes.wire_bytes) << comm::reason_name(key.reason);
          EXPECT_EQ(key.axis, "tp");
          sent[key.reason] += bytes.law_bytes;
        }
      }
      const models::TransformerConfig& model = training.model;
      const int64_t tokens = training.global_batch * training.sequence;
      const int64_t activation = tokens * model.hidden * 8;
      const int64_t of_a_layer = tp_sequence ? 4 + 6 : 2 * (2 + 2);
      const int64_t of_the_ends = tp_sequence ? 2 + 2 : 2 * (1 + 1);
      const int64_t of_losses = 3 * 2 * tokens * 8;
      EXPECT_EQ(sent[comm::Reason::tensor],
                (tp - 1) * ((of_a_layer * model.layers + of_the_ends) * activation + of_losses));
      // Norms, biases of second products and positions.
      const int64_t whole =
          model.hidden * (2 * (2 * model.layers + 1) + 2 * model.layers + model.positions);
      EXPECT_EQ(sent[comm::Reason::gradient], tp_sequence ? 2 * (tp - 1) * whole * 8 : 0);
      EXPECT_EQ(sent[comm::Reason::parameter], 0);
    }
  }
}

}  // namespace
}  // namespace colossal::test::tensor_1d_parity
