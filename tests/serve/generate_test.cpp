#include "colossal/serve/generate.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "tests/serve/tiny_model.h"

namespace colossal::serve {
namespace {

struct Generator : test::TinyModel {
  std::vector<int32_t> run(std::vector<int32_t> prompt, const GenerateOptions& options) {
    std::vector<int32_t> tokens;
    generate(*model, specification.facts, prompt, options,
             [&](int32_t token) { tokens.push_back(token); });
    return tokens;
  }
};

// The cache changes the cost, not the result: each token is the likeliest of a whole forward.
TEST(Generate, EqualsForwardsWithoutACache) {
  Generator tiny;
  at::NoGradGuard no_grad;
  const std::vector<int32_t> tokens =
      tiny.run({4, 8, 15}, {.max_new_tokens = 12, .sampling = {.temperature = 0}});
  ASSERT_EQ(tokens.size(), 12);
  std::vector<int64_t> all{4, 8, 15};
  for (int32_t token : tokens) {
    const auto length = static_cast<int64_t>(all.size());
    const at::Tensor logits = tiny.model->logits(at::tensor(all).view({1, length}),
                                                 nn::make_step_context(1, length, at::kCPU), true);
    EXPECT_EQ(token, logits.argmax(-1).item<int64_t>());
    all.push_back(token);
  }
}

TEST(Generate, StopsWherePositionsEndAndAtEndOfText) {
  Generator tiny;
  const GenerateOptions greedy{.max_new_tokens = 100, .sampling = {.temperature = 0}};
  const std::vector<int32_t> all = tiny.run({1, 2, 3, 4, 5}, greedy);
  EXPECT_EQ(all.size(), 15);  // 20 positions
  GenerateOptions until = greedy;
  until.end_tokens = {49, all[3]};
  EXPECT_LE(tiny.run({1, 2, 3, 4, 5}, until).size(), 3);
}

TEST(Generate, RefusesPromptsThatCannotBe) {
  Generator tiny;
  EXPECT_THROW(tiny.run({}, {}), ConfigError);
  EXPECT_THROW(tiny.run({50}, {}), ConfigError);
  EXPECT_THROW(tiny.run(std::vector<int32_t>(20, 1), {}), ConfigError);
}

}  // namespace
}  // namespace colossal::serve
