// Every tensor mode with every sequence mode that eight ranks have room for, at sizes that divide
// by nothing: vocabulary 997, six heads, hidden 72, sequences of 50 tokens. The serial run's
// losses, gradients and weights.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/support/layout_cases.h"
#include "tests/support/pairwise.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::awkward_sizes {
namespace {

constexpr int kMostRanks = 8;
constexpr int64_t kHeads = 6;

constexpr Strategy kTensors[] = {
    {},
    {.tp = 2, .tp_sequence = false},
    {.tp = 3, .tp_sequence = false},
    {.tp = 4, .tp_sequence = false},
    {.tp = 2},
    {.tp = 3},
    {.tp = 4},
    {.tp = 4, .tensor_mode = TensorMode::two_d},
    {.tp = 9, .tensor_mode = TensorMode::two_d},
    {.tp = 4, .tensor_mode = TensorMode::two_and_half_d},
    {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2},
    {.tp = 8, .tensor_mode = TensorMode::three_d},
};

struct Case {
  bool llama;
  Strategy layout;
  double dropout;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_{}_dropout{}", c.llama ? "llama" : "gpt2", layout_name(c.layout),
                     c.dropout > 0 ? "on" : "off");
}

bool possible(const Strategy& layout) {
  const int ranks = layout.world_size();
  if (ranks == 1 || (ranks > kMostRanks && ranks > layout.tp)) return false;
  if (layout.sequence_mode == SequenceMode::ring) return true;
  return layout.sp > 1 && kHeads / layout.head_ranks() >= layout.sp;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool llama : {false, true}) {
    for (Strategy layout : kTensors) {
      for (const SequenceMode sequence_mode : {SequenceMode::ring, SequenceMode::ulysses}) {
        layout.sequence_mode = sequence_mode;
        for (layout.sp = 1; layout.sp <= 4; ++layout.sp) {
          for (layout.dp = 1; layout.dp <= 2; ++layout.dp) {
            if (!possible(layout)) continue;
            for (layout.zero = 0; layout.zero <= 1; ++layout.zero) {
              for (const double dropout : {0.0, 0.2}) cases.push_back({llama, layout, dropout});
            }
          }
        }
      }
    }
  }
  return cases;
}

TinyTraining training_of(bool llama, double dropout, at::ScalarType type) {
  TinyTraining training;
  training.model = llama ? decoder("llama-tiny", {{"vocab_size", 997},
                                                  {"hidden_size", 72},
                                                  {"intermediate_size", 190},
                                                  {"num_hidden_layers", 2},
                                                  {"num_attention_heads", kHeads},
                                                  {"num_key_value_heads", 2},
                                                  {"head_dim", 12},
                                                  {"max_position_embeddings", 50},
                                                  {"attention_dropout", dropout}})
                         : decoder("gpt2-tiny", {{"vocab_size", 997},
                                                 {"n_positions", 50},
                                                 {"n_embd", 72},
                                                 {"n_layer", 2},
                                                 {"n_head", kHeads},
                                                 {"embd_pdrop", dropout},
                                                 {"attn_pdrop", dropout},
                                                 {"resid_pdrop", dropout}});
  training.sequence = 50;
  training.global_batch = 6;
  training.steps = 5;
  training.compute = training.gradient = type;
  // Gradients below eps move weights by their ratio to it: a smaller one would make of fp32's
  // rounding more than fp32's tolerance in five steps.
  training.eps = 1e-5;
  return training;
}

const TinyResult& serial(bool llama, double dropout, at::ScalarType type) {
  static std::map<std::tuple<bool, double, at::ScalarType>, TinyResult> results;
  const auto [found, is_new] = results.try_emplace({llama, dropout, type});
  if (is_new) found->second = train_tiny(training_of(llama, dropout, type), 1);
  return found->second;
}

class AwkwardSizes : public testing::TestWithParam<Case> {
 protected:
  static void expect_serial(at::ScalarType type, double tolerance) {
    const Case& c = GetParam();
    TinyTraining training = training_of(c.llama, c.dropout, type);
    training.layout = c.layout;
    expect_same(train_tiny(training, c.layout.world_size()), serial(c.llama, c.dropout, type),
                tolerance, training);
  }
};

TEST_P(AwkwardSizes, Fp64EqualsSerial) {
  expect_serial(at::kDouble, 1e-9);
}

class AwkwardSizesFp32 : public AwkwardSizes {};

TEST_P(AwkwardSizesFp32, EqualsSerial) {
  expect_serial(at::kFloat, 1e-4);
}

std::vector<double> settings_of(const Case& c) {
  // Each of kTensors as a whole occurs with each of the rest.
  const int tensor =
      c.layout.tp + 10 * static_cast<int>(c.layout.tensor_mode) + (c.layout.tp_sequence ? 100 : 0);
  return layout_settings(c.layout,
                         {static_cast<double>(tensor), static_cast<double>(c.llama), c.dropout});
}

INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, AwkwardSizes, testing::ValuesIn(all_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(SlowLayouts, AwkwardSizesFp32,
                         testing::ValuesIn(pairwise(all_cases(), settings_of)), name_of);

}  // namespace
}  // namespace colossal::test::awkward_sizes
