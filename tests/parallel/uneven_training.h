// Trainings whose sizes divide by none of the usual group sizes, and their serial runs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/layout_cases.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {

// Heads 6, hidden 72, inner 100, vocabulary 101: most group sizes divide none of them.
inline TinyTraining uneven(double dropout, at::ScalarType type) {
  TinyTraining training;
  training.model = decoder("gpt2-tiny", {{"vocab_size", 101},
                                         {"n_positions", 16},
                                         {"n_embd", 72},
                                         {"n_layer", 2},
                                         {"n_head", 6},
                                         {"n_inner", 100},
                                         {"embd_pdrop", dropout},
                                         {"attn_pdrop", dropout},
                                         {"resid_pdrop", dropout}});
  training.compute = training.gradient = type;
  training.steps = 5;
  // The gradient of the key biases is zero but for rounding (1e-11 in fp32), and five steps of
  // AdamW would move them by its ratio to eps.
  training.eps = 1e-6;
  return training;
}

// A Llama of as uneven sizes, of `heads` heads of queries over two of keys: three ranks of tp share
// those unevenly.
inline TinyTraining uneven_llama(int64_t heads, double dropout, at::ScalarType type) {
  TinyTraining training = uneven(dropout, type);
  training.model = decoder(
      "llama-tiny",
      {{"vocab_size", 101},
       {"hidden_size", 56},
       {"intermediate_size", 50},
       {"num_hidden_layers", 2},
       {"num_attention_heads", 8},
       {"num_key_value_heads", 2},
       {"head_dim", 10},
       {"max_position_embeddings", 16},
       {"attention_dropout", dropout},
       {"attention_bias", true},
       {"rope_theta", 100.0},
       {"rope_scaling",
        {{"rope_type", "llama3"}, {"factor", 8.0}, {"original_max_position_embeddings", 16}}}});
  training.model.heads = heads;  // also those of which no hidden size of a Llama is a multiple
  // Gradients of gate and up are about 1e-5, their rounding in fp32 1e-9; an eps below them would
  // make of that a thousandth of a step, and of five steps more than fp32's tolerance.
  training.eps = 1e-5;
  return training;
}

// The GPT with no heads given, the Llama with so many.
inline TinyTraining uneven_of(int64_t llama_heads, double dropout, at::ScalarType type) {
  return llama_heads > 0 ? uneven_llama(llama_heads, dropout, type) : uneven(dropout, type);
}

// Its runs of one rank.
inline const TinyResult& serial(double dropout, at::ScalarType type, int64_t llama_heads = 0) {
  static std::map<std::tuple<double, at::ScalarType, int64_t>, TinyResult> results;
  const auto [found, is_new] = results.try_emplace({dropout, type, llama_heads});
  if (is_new) {
    found->second = train_tiny(uneven_of(llama_heads, dropout, type), 1);
  }
  return found->second;
}

struct UnevenCase {
  Strategy layout;
  int64_t micro_batch = 0;  // 0: no accumulation
  double dropout = 0;
  int64_t llama_heads = 0;  // 0: the GPT
};

inline std::string uneven_name(const testing::TestParamInfo<UnevenCase>& info) {
  const UnevenCase& c = info.param;
  return fmt::format("{}_{}_micro{}_dropout{}", c.llama_heads > 0 ? "llama" : "gpt2",
                     layout_name(c.layout), c.micro_batch, c.dropout > 0 ? "on" : "off");
}

inline std::vector<double> uneven_settings(const UnevenCase& c) {
  return layout_settings(c.layout, {static_cast<double>(c.micro_batch), c.dropout,
                                    static_cast<double>(c.llama_heads)});
}

class UnevenParity : public testing::TestWithParam<UnevenCase> {
 protected:
  static void expect_serial(at::ScalarType type, double tolerance) {
    const auto& [layout, micro_batch, dropout, llama_heads] = GetParam();
    TinyTraining training = uneven_of(llama_heads, dropout, type);
    training.layout = layout;
    training.micro_batch = micro_batch;
    expect_same(train_tiny(training, layout.world_size()), serial(dropout, type, llama_heads),
                tolerance, training);
  }
};

}  // namespace colossal::test
