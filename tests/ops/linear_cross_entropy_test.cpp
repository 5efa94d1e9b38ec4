#include "colossal/ops/loss/linear_cross_entropy.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "colossal/base/error.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

struct Problem {
  at::Tensor x, weight, labels;

  Problem to(at::ScalarType type) const { return {x.to(type), weight.to(type), labels}; }
};

struct Results {
  at::Tensor loss, x_gradient, weight_gradient;
};

// Rounded to bf16, so that every type starts from the same numbers. Every third label is ignored.
Problem make_problem(int64_t tokens, int64_t hidden, int64_t vocabulary, double weight_spread) {
  const at::Tensor labels = at::arange(tokens, at::kLong).mul(7919).remainder(vocabulary);
  labels.masked_fill_(at::arange(tokens, at::kLong).remainder(3).eq(1), kIgnoredLabel);
  return {normal({tokens, hidden}, at::kBFloat16, 1).to(at::kDouble),
          normal({vocabulary, hidden}, at::kDouble, 2)
              .mul(weight_spread)
              .to(at::kBFloat16)
              .to(at::kDouble),
          labels};
}

using Loss = std::function<at::Tensor(const Problem&)>;

Results differentiate(const Problem& problem, const Loss& loss, double upstream = 1) {
  const Problem leaves{problem.x.detach().requires_grad_(),
                       problem.weight.detach().requires_grad_(), problem.labels};
  const at::Tensor value = loss(leaves);
  const auto gradients =
      torch::autograd::grad({value}, {leaves.x, leaves.weight}, {at::full_like(value, upstream)});
  return {value.detach(), gradients[0], gradients[1]};
}

at::Tensor fused(const Problem& p) {
  return linear_cross_entropy(p.x, p.weight, p.labels);
}

// What one writes without the fused operator: logits in the inputs' type, softmax in fp32.
at::Tensor unfused(const Problem& p) {
  const at::Tensor logits = at::linear(p.x, p.weight);
  const at::Tensor wide = logits.scalar_type() == at::kBFloat16 ? logits.to(at::kFloat) : logits;
  return at::cross_entropy_loss(wide, p.labels, {}, at::Reduction::Sum, kIgnoredLabel);
}

void expect_results_near(const Results& a, const Results& b, double tolerance) {
  expect_near(a.loss, b.loss, tolerance);
  expect_near(a.x_gradient, b.x_gradient, tolerance);
  expect_near(a.weight_gradient, b.weight_gradient, tolerance);
}

TEST(LinearCrossEntropy, EqualsTheUnfusedOperators) {
  for (const auto& [tokens, hidden, vocabulary] :
       {std::array<int64_t, 3>{1, 8, 5}, {37, 24, 257}, {130, 16, 1031}}) {
    const Problem problem = make_problem(tokens, hidden, vocabulary, 0.5);
    const Results expected = differentiate(problem, unfused, 0.37);
    for (const at::ScalarType type : all_types()) {
      SCOPED_TRACE(c10::toString(type));
      const Results results = differentiate(problem.to(type), fused, 0.37);
      expect_results_near(results, expected, tolerance_of(type));
      EXPECT_EQ(results.x_gradient.scalar_type(), type);
      EXPECT_EQ(results.weight_gradient.scalar_type(), type);
      EXPECT_EQ(results.loss.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
    }
  }
}

// Bytes for the logits of this many tokens.
int64_t bytes_of_rows(int64_t rows, const Problem& problem, at::ScalarType type) {
  return rows * problem.weight.size(0) * static_cast<int64_t>(c10::elementSize(type));
}

// No second copy of the vocabulary's gradient is made to scale and round it; several threads would
// overtake each other. Whoever goes back twice is told.
TEST(LinearCrossEntropy, GradientsAreRoundedWhereTheyAre) {
  const int threads = at::get_num_threads();
  const Problem problem = make_problem(33, 8, 4'003, 0.5);
  for (const int num_threads : {1, 2}) {
    at::set_num_threads(num_threads);
    for (const at::ScalarType type : all_types()) {
      const Problem given = problem.to(type);
      const at::Tensor weight = given.weight.detach().requires_grad_();
      const int64_t bytes = bytes_of_rows(8, problem, type);
      const at::Tensor loss = linear_cross_entropy(given.x, weight, given.labels, {}, bytes);
      const at::Tensor factor = at::full({}, 0.37, loss.options());
      const at::Tensor gradient = torch::autograd::grad({loss}, {weight}, {factor}, true)[0];
      const size_t wide = num_threads == 1 && type == at::kBFloat16 ? 2 : 1;
      EXPECT_EQ(gradient.storage().nbytes(), wide * gradient.nbytes()) << type;
      EXPECT_THROW(torch::autograd::grad({loss}, {weight}, {factor}), InternalError);
    }
  }
  at::set_num_threads(threads);
}

TEST(LinearCrossEntropy, BlocksOfTokensAddUp) {
  const Problem problem = make_problem(300, 24, 5'003, 0.5);
  const Results expected = differentiate(problem, unfused);
  for (const at::ScalarType type : all_types()) {
    for (const int64_t rows : {1, 7, 64, 150}) {
      SCOPED_TRACE(fmt::format("{} {}", c10::toString(type), rows));
      const int64_t bytes = bytes_of_rows(rows, problem, type);
      ASSERT_EQ(linear_cross_entropy_block_tokens(300, 5'003, type, bytes), rows);
      const auto blocked = [&](const Problem& p) {
        return linear_cross_entropy(p.x, p.weight, p.labels, {}, bytes);
      };
      expect_results_near(differentiate(problem.to(type), blocked), expected, tolerance_of(type));
    }
  }
}

// gpt2-124m: a rank's two sequences of 512 tokens, and as many again. Held: a number of 2 bytes for
// each token and each of the hidden size, or of 2 for each token of a block and of 4 for the
// latter.
TEST(LinearCrossEntropy, KeepsLogitsWhereThatTakesLess) {
  EXPECT_EQ(linear_cross_entropy_block_tokens(1'024, 50'304, at::kBFloat16), 512);
  EXPECT_TRUE(linear_cross_entropy_keeps_logits(1'024, 768, 50'304, at::kBFloat16));
  EXPECT_EQ(linear_cross_entropy_block_tokens(2'048, 50'304, at::kBFloat16), 512);
  EXPECT_FALSE(linear_cross_entropy_keeps_logits(2'048, 768, 50'304, at::kBFloat16));
  EXPECT_FALSE(linear_cross_entropy_keeps_logits(1'024, 768, 50'304, at::kFloat));
  EXPECT_FALSE(linear_cross_entropy_keeps_logits(1'024, 768, 50'304, at::kDouble));
  EXPECT_TRUE(linear_cross_entropy_keeps_logits(1, 8, 5, at::kBFloat16));
  EXPECT_TRUE(linear_cross_entropy_keeps_logits(0, 8, 5, at::kBFloat16));
}

// A gradient that the backward pass makes of kept logits is its own memory, no wider than it must
// be, and made once.
TEST(LinearCrossEntropy, MakesTheGradientOfKeptLogitsOnce) {
  const Problem problem = make_problem(33, 8, 4'003, 0.5).to(at::kBFloat16);
  const at::Tensor weight = problem.weight.detach().requires_grad_();
  const at::Tensor loss = fused({problem.x, weight, problem.labels});
  const at::Tensor factor = at::full({}, 0.37, loss.options());
  const at::Tensor gradient = torch::autograd::grad({loss}, {weight}, {factor}, true)[0];
  EXPECT_EQ(gradient.storage().nbytes(), gradient.nbytes());
  EXPECT_THROW(torch::autograd::grad({loss}, {weight}, {factor}), InternalError);
}

TEST(LinearCrossEntropy, RowsStayWithinTheirBytes) {
  for (const at::ScalarType type : all_types()) {
    for (const int64_t vocabulary : {5, 512, 50'304, 128'256, 1 << 27}) {
      for (const int64_t tokens : {0, 1, 63, 1'024, 100'000}) {
        const int64_t rows = linear_cross_entropy_block_tokens(tokens, vocabulary, type);
        EXPECT_GE(rows, 1);
        EXPECT_LE(rows, std::max<int64_t>(1, tokens));
        const int64_t bytes = rows * vocabulary * static_cast<int64_t>(c10::elementSize(type));
        EXPECT_TRUE(rows == 1 || bytes <= int64_t{64} << 20);
      }
    }
  }
}

// In bf16 the fused gradients are as good as those of the unfused operators: logits, their gradient
// and the results are rounded in both, the sums over blocks are not. Kept logits are the same ones.
TEST(LinearCrossEntropy, LosesNoPrecisionInBfloat) {
  for (const double spread : {0.02, 0.3}) {
    const Problem problem = make_problem(1'024, 64, 4'003, spread);
    const Results exact = differentiate(problem, unfused);
    const Results theirs = differentiate(problem.to(at::kBFloat16), unfused);
    const auto error = [](const at::Tensor& a, const at::Tensor& b) {
      return distance(a, b) / b.norm().item<double>();
    };
    for (const int64_t bytes : {kDefaultLogitsBytes, bytes_of_rows(128, problem, at::kBFloat16)}) {
      const Results ours = differentiate(problem.to(at::kBFloat16), [&](const Problem& p) {
        return linear_cross_entropy(p.x, p.weight, p.labels, {}, bytes);
      });
      EXPECT_LE(error(ours.weight_gradient, exact.weight_gradient),
                1.1 * error(theirs.weight_gradient, exact.weight_gradient));
      EXPECT_LE(error(ours.x_gradient, exact.x_gradient),
                1.1 * error(theirs.x_gradient, exact.x_gradient));
      EXPECT_NEAR(ours.loss.item<double>(), exact.loss.item<double>(),
                  1e-4 * exact.loss.item<double>());
    }
  }
}

// {bias, scale and cap of the logits}, and the same by PyTorch's operators.
struct Finish {
  bool bias = false;
  double scale = 1;
  double soft_cap = 0;
};

std::vector<at::Tensor> finished(
    const Problem& problem, const at::Tensor& bias, const Finish& finish,
    const std::function<at::Tensor(const Problem&, const at::Tensor&)>& loss) {
  const Problem leaves{problem.x.detach().requires_grad_(),
                       problem.weight.detach().requires_grad_(), problem.labels};
  const at::Tensor leaf = bias.detach().to(problem.x.scalar_type()).requires_grad_();
  const at::Tensor value = loss(leaves, finish.bias ? leaf : at::Tensor());
  std::vector<at::Tensor> inputs{leaves.x, leaves.weight};
  if (finish.bias) inputs.push_back(leaf);
  std::vector<at::Tensor> results =
      torch::autograd::grad({value}, inputs, {at::full_like(value, 0.37)});
  results.push_back(value.detach());
  return results;
}

TEST(LinearCrossEntropy, TakesABiasAScaleAndACap) {
  const Problem problem = make_problem(37, 24, 257, 0.5);
  const at::Tensor bias = normal({257}, at::kBFloat16, 3).to(at::kDouble);
  const VocabularyShard whole{0, 257, 257, [](const at::Tensor&) {}};
  for (const Finish& finish : {Finish{.bias = true}, Finish{.scale = 0.25}, Finish{.soft_cap = 1.5},
                               Finish{true, 0.5, 2.0}}) {
    const auto expected =
        finished(problem, bias, finish, [&](const Problem& p, const at::Tensor& b) {
          at::Tensor logits = at::linear(p.x, p.weight);
          if (b.defined()) logits = logits + b;
          logits = logits * finish.scale;
          if (finish.soft_cap > 0) logits = finish.soft_cap * at::tanh(logits / finish.soft_cap);
          return at::cross_entropy_loss(logits, p.labels, {}, at::Reduction::Sum, kIgnoredLabel);
        });
    for (const at::ScalarType type : all_types()) {
      for (const int64_t rows : {37, 8}) {
        for (const bool sharded : {false, true}) {
          SCOPED_TRACE(fmt::format("{}, bias {}, scale {}, cap {}, {} rows, a shard {}",
                                   c10::toString(type), finish.bias, finish.scale, finish.soft_cap,
                                   rows, sharded));
          const int64_t bytes = bytes_of_rows(rows, problem, type);
          const auto found =
              finished(problem.to(type), bias, finish, [&](const Problem& p, const at::Tensor& b) {
                const LogitOptions options{b, finish.scale, finish.soft_cap};
                return sharded
                           ? linear_cross_entropy(p.x, p.weight, p.labels, whole, options, bytes)
                           : linear_cross_entropy(p.x, p.weight, p.labels, options, bytes);
              });
          for (size_t i = 0; i < expected.size(); ++i) {
            SCOPED_TRACE(i);
            expect_near(found[i], expected[i], tolerance_of(type));
          }
        }
      }
    }
    const at::Tensor logits =
        logits_from_products(at::linear(problem.x, problem.weight),
                             {finish.bias ? bias : at::Tensor(), finish.scale, finish.soft_cap});
    expect_near(
        at::cross_entropy_loss(logits, problem.labels, {}, at::Reduction::Sum, kIgnoredLabel),
        expected.back(), 1e-13);
  }
}

TEST(LinearCrossEntropy, AllLabelsIgnoredGiveZeros) {
  for (const at::ScalarType type : all_types()) {
    Problem problem = make_problem(20, 8, 30, 0.5).to(type);
    problem.labels = at::full({20}, kIgnoredLabel, at::kLong);
    const Results results = differentiate(problem, fused);
    EXPECT_EQ(results.loss.item<double>(), 0);
    EXPECT_TRUE(results.x_gradient.eq(0).all().item<bool>());
    EXPECT_TRUE(results.weight_gradient.eq(0).all().item<bool>());
  }
}

TEST(LinearCrossEntropy, TakesNoTokens) {
  for (const at::ScalarType type : all_types()) {
    const Results results = differentiate(make_problem(0, 8, 30, 0.5).to(type), fused);
    EXPECT_EQ(results.loss.item<double>(), 0);
    EXPECT_EQ(results.x_gradient.sizes(), at::IntArrayRef({0, 8}));
    EXPECT_TRUE(results.weight_gradient.eq(0).all().item<bool>());
  }
}

TEST(LinearCrossEntropy, ComputesOnlyTheGradientsAskedFor) {
  const Problem problem = make_problem(20, 8, 30, 0.5);
  const Results expected = differentiate(problem, unfused);
  const at::Tensor x = problem.x.detach().requires_grad_();
  const auto x_only = torch::autograd::grad({fused({x, problem.weight, problem.labels})}, {x});
  expect_near(x_only[0], expected.x_gradient, 1e-13);
  const at::Tensor weight = problem.weight.detach().requires_grad_();
  const auto weight_only =
      torch::autograd::grad({fused({problem.x, weight, problem.labels})}, {weight});
  expect_near(weight_only[0], expected.weight_gradient, 1e-13);
  const at::NoGradGuard no_grad;
  const at::Tensor loss = fused({x, weight, problem.labels});
  EXPECT_FALSE(loss.requires_grad());
  expect_near(loss, expected.loss, 1e-13);
}

TEST(LinearCrossEntropy, AnInfiniteActivationGivesALossThatIsNotFinite) {
  Problem problem = make_problem(20, 8, 30, 0.5).to(at::kBFloat16);
  problem.x[3][2] = INFINITY;
  EXPECT_FALSE(std::isfinite(fused(problem).item<float>()));
}

TEST(LinearCrossEntropy, RefusesLabelsOutsideTheVocabulary) {
  Problem problem = make_problem(20, 8, 30, 0.5);
  problem.labels[2] = 30;
  EXPECT_THROW(fused(problem), InternalError);
  problem.labels[2] = -1;
  EXPECT_THROW(fused(problem), InternalError);
}

TEST(LinearCrossEntropy, RunsOnMetaWithTheShapesOfTheRealOne) {
  for (const at::ScalarType type : all_types()) {
    const Problem problem = make_problem(20, 4, 103, 0.5).to(type);
    for (const int64_t bytes : {kDefaultLogitsBytes, bytes_of_rows(8, problem, type)}) {
      const auto loss = [&](const Problem& p) {
        return linear_cross_entropy(p.x, p.weight, p.labels, {}, bytes);
      };
      const Results real = differentiate(problem, loss);
      const Results dry = differentiate(
          {problem.x.to(at::kMeta), problem.weight.to(at::kMeta), problem.labels.to(at::kMeta)},
          loss);
      expect_same_shape(dry.loss, real.loss);
      expect_same_shape(dry.x_gradient, real.x_gradient);
      expect_same_shape(dry.weight_gradient, real.weight_gradient);
    }
  }
}

}  // namespace
}  // namespace colossal::ops
