// Every tensor mode with every sequence mode that eight ranks have room for, at sizes that divide
// by nothing: vocabulary 997, six heads, hidden 72, sequences of 50 tokens. The serial run's
// losses, gradients and weights.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/support/pairwise.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::awkward_sizes {
namespace {

constexpr int kMostRanks = 8;
constexpr int64_t kHeads = 6;

struct Tensor {
  const char* name;
  TensorMode mode;
  int ranks;
  int depth = 1;
  bool share_tokens = false;
  int side = 1;  // ranks that share the heads
};

constexpr Tensor kTensors[] = {
    {"whole", TensorMode::one_d, 1},
    {"1d2", TensorMode::one_d, 2, 1, false, 2},
    {"1d3", TensorMode::one_d, 3, 1, false, 3},
    {"1d4", TensorMode::one_d, 4, 1, false, 4},
    {"1d2tokens", TensorMode::one_d, 2, 1, true, 2},
    {"1d3tokens", TensorMode::one_d, 3, 1, true, 3},
    {"1d4tokens", TensorMode::one_d, 4, 1, true, 4},
    {"2d4", TensorMode::two_d, 4, 1, false, 2},
    {"2d9", TensorMode::two_d, 9, 1, false, 3},
    {"2halfd4", TensorMode::two_and_half_d, 4, 1, false, 2},
    {"2halfd8", TensorMode::two_and_half_d, 8, 2, false, 2},
    {"3d8", TensorMode::three_d, 8, 1, false, 2},
};

struct Case {
  bool llama;
  size_t tensor;
  SequenceMode sequence_mode;
  int sp;
  int dp;
  int zero;
  double dropout;

  int ranks() const { return kTensors[tensor].ranks * sp * dp; }
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_{}_{}{}_dp{}_zero{}_dropout{}", c.llama ? "llama" : "gpt2",
                     kTensors[c.tensor].name,
                     c.sequence_mode == SequenceMode::ring ? "ring" : "ulysses", c.sp, c.dp, c.zero,
                     c.dropout > 0 ? "on" : "off");
}

bool possible(const Case& c) {
  const Tensor& tensor = kTensors[c.tensor];
  if (c.ranks() == 1 || (c.ranks() > kMostRanks && c.ranks() > tensor.ranks)) return false;
  if (c.sequence_mode == SequenceMode::ring) return true;
  return c.sp > 1 && kHeads / tensor.side >= c.sp;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool llama : {false, true}) {
    for (size_t tensor = 0; tensor < std::size(kTensors); ++tensor) {
      for (const SequenceMode sequence_mode : {SequenceMode::ring, SequenceMode::ulysses}) {
        for (const int sp : {1, 2, 3, 4}) {
          for (const int dp : {1, 2}) {
            for (const int zero : {0, 1}) {
              for (const double dropout : {0.0, 0.2}) {
                const Case one{llama, tensor, sequence_mode, sp, dp, zero, dropout};
                if (possible(one)) cases.push_back(one);
              }
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
  training.model = {.vocab_size = 997,
                    .n_positions = 50,
                    .n_embd = 72,
                    .n_layer = 2,
                    .n_head = kHeads,
                    .embd_pdrop = dropout,
                    .attn_pdrop = dropout,
                    .resid_pdrop = dropout};
  if (llama) {
    training.llama = {.vocab_size = 997,
                      .hidden_size = 72,
                      .intermediate_size = 190,
                      .num_hidden_layers = 2,
                      .num_attention_heads = kHeads,
                      .num_key_value_heads = 2,
                      .head_dim = 12,
                      .max_position_embeddings = 50,
                      .attention_dropout = dropout};
  }
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
    const Tensor& tensor = kTensors[c.tensor];
    TinyTraining training = training_of(c.llama, c.dropout, type);
    training.tensor_mode = tensor.mode;
    training.tp = tensor.ranks;
    training.tp_depth = tensor.depth;
    training.tp_sequence = tensor.share_tokens;
    training.sp = c.sp;
    training.sequence_mode = c.sequence_mode;
    training.zero = c.zero;
    expect_same(train_tiny(training, c.ranks()), serial(c.llama, c.dropout, type), tolerance,
                training);
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
  return {static_cast<double>(c.llama),
          static_cast<double>(c.tensor),
          static_cast<double>(c.sequence_mode),
          static_cast<double>(c.sp),
          static_cast<double>(c.dp),
          static_cast<double>(c.zero),
          c.dropout};
}

INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, AwkwardSizes, testing::ValuesIn(all_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(SlowLayouts, AwkwardSizesFp32,
                         testing::ValuesIn(pairwise(all_cases(), settings_of)), name_of);

}  // namespace
}  // namespace colossal::test::awkward_sizes
