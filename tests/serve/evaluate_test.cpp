#include "colossal/serve/evaluate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "colossal/base/error.h"
#include "tests/serve/tiny_model.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {
namespace {

class Evaluate : public testing::Test {
 protected:
  Evaluate() {
    at::set_num_threads(1);  // more threads only slow down such small tensors
    std::iota(tokens_.begin(), tokens_.end(), 3);
    for (int32_t& token : tokens_) token = token * token % 50;
  }

  // Returns the loss sum, computed from the logits of each row alone.
  double expected_sum(int64_t length) {
    const at::NoGradGuard no_grad;
    double sum = 0;
    const auto targets = std::ssize(tokens_) - 1;
    for (int64_t begin = 0; begin < targets; begin += length) {
      const int64_t count = std::min(length, targets - begin);
      const at::Tensor inputs = at::tensor(at::ArrayRef(tokens_).slice(begin, count), at::kLong);
      const at::Tensor likelihoods = logits_of(*tiny_.model, inputs.view({1, count}),
                                               nn::make_step_context(1, count, at::kCPU))
                                         .log_softmax(-1);
      for (int64_t i = 0; i < count; ++i) {
        sum -= likelihoods[0][i][tokens_[begin + i + 1]].item<double>();
      }
    }
    return sum;
  }

  Evaluation run(const EvaluateOptions& options) const {
    return evaluate(*tiny_.model, data::Corpus::from_tokens(tokens_), options);
  }

  test::TinyModel tiny_;
  std::vector<int32_t> tokens_ = std::vector<int32_t>(47);
};

// Lengths with a shorter last row, lengths that divide the text, and one that is longer than the
// text.
TEST_F(Evaluate, PredictsEachTokenButTheFirstOnceWhateverTheBatch) {
  tokens_.resize(19);
  for (const int64_t length : {1, 4, 6, 18, 20}) {
    const double expected = expected_sum(length);
    for (const int64_t batch : {1, 2, 100}) {
      SCOPED_TRACE(fmt::format("length {}, batch {}", length, batch));
      const Evaluation found = run({.sequence_length = length, .batch = batch});
      EXPECT_EQ(found.tokens, 18);
      EXPECT_NEAR(found.loss_sum, expected, 1e-10);
      EXPECT_DOUBLE_EQ(found.perplexity(), std::exp(found.loss_sum / 18));
    }
  }
}

TEST_F(Evaluate, SaysWhatIsDoneAfterEachBatch) {
  std::vector<int64_t> done;
  evaluate(*tiny_.model, data::Corpus::from_tokens(tokens_), {.sequence_length = 10, .batch = 3},
           [&](const Evaluation& so_far) { done.push_back(so_far.tokens); });
  EXPECT_EQ(done, (std::vector<int64_t>{30, 40, 46}));
}

TEST_F(Evaluate, RefusesWhatCannotBe) {
  EXPECT_THROW(run({.sequence_length = 0}), ConfigError);
  EXPECT_THROW(run({.sequence_length = 4, .batch = 0}), ConfigError);
  tokens_.resize(1);
  EXPECT_THROW(run({.sequence_length = 4}), ConfigError);
}

TEST_F(Evaluate, ALossThatIsNotFiniteIsAnError) {
  tiny_.build.parameters()[0]->tensor.fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THROW(run({.sequence_length = 4}), Error);
}

}  // namespace
}  // namespace colossal::serve
