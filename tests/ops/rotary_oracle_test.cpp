// Frequencies and attention factors of every scaling against transformers' own functions.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <sstream>

#include "colossal/ops/attention/rotary.h"

namespace colossal::ops {
namespace rotary_oracle_test {

using Scaling = RotaryOptions::Scaling;

constexpr int64_t kHeadSize = 32, kPairs = 16, kPositions = 128;

struct Case {
  std::string name;
  RotaryOptions options;
  int64_t length = 0;
};

std::vector<double> divisors(double first, double step) {
  std::vector<double> all;
  for (int64_t i = 0; i < kPairs; ++i) all.push_back(first + step * static_cast<double>(i));
  return all;
}

// As rotary_oracle.py has them.
std::vector<Case> cases() {
  const RotaryOptions longrope{.base = 500,
                               .scaling = Scaling::longrope,
                               .factor = 4,
                               .original_positions = kPositions,
                               .short_factors = divisors(1, 0.125),
                               .long_factors = divisors(2, 0.5)};
  const RotaryOptions dynamic{
      .base = 500, .scaling = Scaling::dynamic, .factor = 2, .original_positions = kPositions};
  const RotaryOptions yarn{
      .base = 500, .scaling = Scaling::yarn, .factor = 4, .original_positions = kPositions};
  RotaryOptions untruncated = yarn, attention = yarn;
  untruncated.factor = 8;
  untruncated.beta_fast = 20;
  untruncated.beta_slow = 2;
  untruncated.truncate = false;
  untruncated.mscale = 0.8;
  untruncated.mscale_all_dim = 0.5;
  attention.attention_factor = 1.5;
  attention.channels = 24;
  return {{"linear", {.base = 500, .factor = 3}},
          {"partial", {.base = 500, .channels = 16, .factor = 3}},
          {"dynamic_short", dynamic, 100},
          {"dynamic_long", dynamic, 300},
          {"yarn", yarn},
          {"yarn_untruncated", untruncated},
          {"yarn_attention", attention},
          {"longrope_short", longrope, kPositions},
          {"longrope_long", longrope, kPositions + 1},
          {"llama3",
           {.base = 500,
            .scaling = Scaling::llama3,
            .factor = 8,
            .original_positions = kPositions,
            .low_frequency_factor = 1,
            .high_frequency_factor = 4}},
          {"proportional",
           {.base = 500, .channels = 8, .scaling = Scaling::proportional, .factor = 2}}};
}

// What the oracle prints.
std::istringstream oracle() {
  const std::string command =
      "'" COLOSSAL_TEST_SOURCE_DIR "/.venv/bin/python' '" COLOSSAL_TEST_SOURCE_DIR
      "/tests/ops/rotary_oracle.py'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> part;
  while (const size_t count = fread(part.data(), 1, part.size(), pipe.get())) {
    text.append(part.data(), count);
  }
  return std::istringstream(text);
}

TEST(RotaryOracle, FrequenciesAreThoseOfTransformers) {
  std::istringstream lines = oracle();
  for (const Case& which : cases()) {
    SCOPED_TRACE(which.name);
    std::string text;
    ASSERT_TRUE(std::getline(lines, text));
    std::istringstream line(text);
    std::string name;
    double factor = 0;
    line >> name >> factor;
    EXPECT_EQ(name, which.name);
    EXPECT_NEAR(rotary_attention_factor(which.options), factor, 1e-12);
    const at::Tensor ours = rotary_frequencies(which.options, kHeadSize, which.length);
    for (int64_t i = 0; i < ours.size(0); ++i) {
      double theirs = -1;
      ASSERT_TRUE(line >> theirs) << i;
      EXPECT_NEAR(ours[i].item<double>(), theirs, 3e-6 * theirs) << i;  // theirs are in fp32
    }
    EXPECT_FALSE(line >> factor);
  }
}

}  // namespace rotary_oracle_test
}  // namespace colossal::ops
