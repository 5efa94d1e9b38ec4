// Tensor parallelism in two, two and a half, and three dimensions: the same numbers as the serial
// run, in combination with the rest.
#include <gtest/gtest.h>

#include "tests/support/pairwise.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

struct Case {
  bool llama;
  TensorMode mode;
  int tp;
  int depth;
  int sp;
  SequenceMode sequence_mode;
  int dp;
  int zero;
  int64_t micro_batch;
  double dropout;

  int ranks() const { return tp * sp * dp; }
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  const char* mode = c.mode == TensorMode::two_d            ? "2d"
                     : c.mode == TensorMode::two_and_half_d ? "2halfd"
                                                            : "3d";
  return fmt::format("{}_{}_tp{}_depth{}_{}{}_dp{}_zero{}_micro{}_dropout{}",
                     c.llama ? "llama" : "gpt2", mode, c.tp, c.depth,
                     c.sequence_mode == SequenceMode::ring ? "ring" : "ulysses", c.sp, c.dp, c.zero,
                     c.micro_batch, c.dropout > 0 ? "on" : "off");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (bool llama : {false, true}) {
    for (int zero : {0, 1}) {
      for (double dropout : {0.0, 0.2}) {
        const auto add = [&](TensorMode mode, int tp, int depth, int sp, int dp,
                             int64_t micro_batch) {
          for (SequenceMode sequence_mode : {SequenceMode::ring, SequenceMode::ulysses}) {
            cases.push_back(
                {llama, mode, tp, depth, sp, sequence_mode, dp, zero, micro_batch, dropout});
            if (sp == 1) break;
          }
        };
        for (int64_t micro_batch : {0, 5}) {
          add(TensorMode::two_d, 4, 1, 1, 1, micro_batch);
          add(TensorMode::two_and_half_d, 4, 1, 1, 1, micro_batch);
          add(TensorMode::two_and_half_d, 8, 2, 1, 1, micro_batch);
          add(TensorMode::three_d, 8, 1, 1, 1, micro_batch);
        }
        add(TensorMode::two_d, 9, 1, 1, 1, 5);
        add(TensorMode::two_d, 4, 1, 2, 1, 5);
        add(TensorMode::two_d, 4, 1, 1, 2, 0);
        add(TensorMode::two_and_half_d, 4, 1, 2, 1, 0);
        add(TensorMode::two_and_half_d, 4, 1, 1, 2, 5);
      }
    }
  }
  return cases;
}

// Heads 6, hidden 72, inner 100, vocabulary 101; Llama: 6 heads over 2 of keys. A micro-batch of 5,
// and the 2 that are then left, do not divide, and leave ranks without a sequence.
TinyTraining uneven(bool llama, double dropout, at::ScalarType type) {
  TinyTraining training;
  if (llama) {
    training.llama = {.vocab_size = 101,
                      .hidden_size = 56,
                      .intermediate_size = 50,
                      .num_hidden_layers = 2,
                      .num_attention_heads = 6,
                      .num_key_value_heads = 2,
                      .head_dim = 10,
                      .max_position_embeddings = 16,
                      .attention_dropout = dropout,
                      .attention_bias = true,
                      .rotary = {.base = 100, .factor = 8, .original_positions = 16}};
    training.eps = 1e-5;  // see llama_test.cpp
  } else {
    training.model = {.vocab_size = 101,
                      .n_positions = 16,
                      .n_embd = 72,
                      .n_layer = 2,
                      .n_head = 6,
                      .n_inner = 100,
                      .embd_pdrop = dropout,
                      .attn_pdrop = dropout,
                      .resid_pdrop = dropout};
    training.eps = 1e-6;  // see uneven_training.h
  }
  training.compute = training.gradient = type;
  training.steps = 5;
  return training;
}

const TinyResult& serial(bool llama, double dropout, at::ScalarType type) {
  static std::map<std::tuple<bool, double, at::ScalarType>, TinyResult> results;
  const auto [found, is_new] = results.try_emplace({llama, dropout, type});
  if (is_new) found->second = train_tiny(uneven(llama, dropout, type), 1);
  return found->second;
}

class TensorGridParity : public testing::TestWithParam<Case> {
 protected:
  static void expect_serial(at::ScalarType type, double tolerance) {
    const Case& layout = GetParam();
    TinyTraining training = uneven(layout.llama, layout.dropout, type);
    training.tensor_mode = layout.mode;
    training.tp = layout.tp;
    training.tp_depth = layout.depth;
    training.sp = layout.sp;
    training.sequence_mode = layout.sequence_mode;
    training.zero = layout.zero;
    training.micro_batch = layout.micro_batch;
    expect_same(train_tiny(training, layout.ranks()), serial(layout.llama, layout.dropout, type),
                tolerance, training);
  }
};

TEST_P(TensorGridParity, Fp64EqualsSerial) {
  expect_serial(at::kDouble, 1e-9);
}

TEST_P(TensorGridParity, Fp32EqualsSerial) {
  expect_serial(at::kFloat, 1e-4);
}

std::vector<double> settings_of(const Case& c) {
  return {static_cast<double>(c.llama),
          static_cast<double>(c.mode),
          static_cast<double>(c.tp),
          static_cast<double>(c.sp),
          static_cast<double>(c.dp),
          static_cast<double>(c.sequence_mode),
          static_cast<double>(c.zero),
          static_cast<double>(c.micro_batch),
          c.dropout};
}

INSTANTIATE_TEST_SUITE_P(Layouts, TensorGridParity,
                         testing::ValuesIn(pairwise(all_cases(), settings_of)), name_of);
INSTANTIATE_TEST_SUITE_P(SlowAllLayouts, TensorGridParity, testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace colossal::test
