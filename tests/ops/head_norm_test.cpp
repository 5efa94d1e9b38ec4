#include "colossal/ops/norm/head_norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/dispatch.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace head_norm_test {

using Tensors = std::vector<at::Tensor>;

constexpr double kEpsilon = 0.1;
// More tokens than are summed together; sizes that divide by nothing.
constexpr int64_t kHeads = 5, kNormed = 3, kHeadSize = 37;

struct Case {
  bool centered;
  bool bias;
  bool unit_offset;
};
constexpr Case kCases[] = {
    {false, false, false}, {false, false, true}, {true, false, false}, {true, true, false}};

// x, weight, bias
Tensors inputs_of(at::ScalarType type) {
  Tensors inputs{normal({2, 41, kHeads, kHeadSize}, at::kBFloat16, 1)};
  for (const uint64_t seed : {2, 3}) {
    inputs.push_back(normal({kNormed, kHeadSize}, at::kBFloat16, seed));
  }
  for (at::Tensor& input : inputs) input = input.to(type).requires_grad_();
  return inputs;
}

at::Tensor run(const Case& which, const Tensors& in) {
  return norm_heads(in[0], in[1], which.bias ? in[2] : at::Tensor(), which.unit_offset,
                    which.centered, kEpsilon);
}

at::Tensor formula(const Case& which, const Tensors& in) {
  const at::Tensor x = in[0].narrow(2, 0, kNormed);
  const at::Tensor centered = which.centered ? x - x.mean(-1, true) : x;
  at::Tensor y = centered / (centered.square().mean(-1, true) + kEpsilon).sqrt() *
                 (which.unit_offset ? 1 + in[1] : in[1]);
  if (which.bias) y = y + in[2];
  return at::cat({y, in[0].narrow(2, kNormed, kHeads - kNormed)}, 2);
}

// The result and the gradients of all inputs.
Tensors results_of(const at::Tensor& y, const Tensors& inputs) {
  const at::Tensor g = normal(y.sizes(), at::kBFloat16, 5).to(y.scalar_type());
  Tensors all = torch::autograd::grad({y}, inputs, {g}, std::nullopt, false, true);
  all.push_back(y.detach());
  return all;
}

TEST(HeadNorm, EqualsItsFormulaWithItsGradients) {
  for (const Case& which : kCases) {
    const Tensors wide = inputs_of(at::kDouble);
    const Tensors expected = results_of(formula(which, wide), wide);
    for (const at::ScalarType type : all_types()) {
      SCOPED_TRACE(fmt::format("{}, centered {}, bias {}, + 1 {}", c10::toString(type),
                               which.centered, which.bias, which.unit_offset));
      const Tensors in = inputs_of(type);
      const Tensors found = results_of(run(which, in), in);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[i].defined(), expected[i].defined());
        if (found[i].defined()) expect_near(found[i], expected[i], tolerance_of(type));
      }
    }
  }
}

TEST(HeadNorm, OfAViewAndOfNoTokens) {
  const Tensors in = inputs_of(at::kDouble);
  const Case plain = kCases[3];
  const at::Tensor view = at::cat({in[0], in[0]}, 2).narrow(2, 0, kHeads);
  EXPECT_TRUE(at::equal(run(plain, {view, in[1], in[2]}), run(plain, in)));
  const at::Tensor none = in[0].narrow(0, 0, 0);
  const at::Tensor y = run(plain, {none, in[1], in[2]});
  EXPECT_EQ(y.sizes(), none.sizes());
  EXPECT_EQ(torch::autograd::grad({y.sum()}, {in[1]})[0].norm().item<double>(), 0);
}

TEST(HeadNorm, HasTheSameBitsWithAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const Tensors in = inputs_of(at::kFloat);
  std::vector<Tensors> found;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    found.push_back(results_of(run(kCases[3], in), in));
  }
  at::set_num_threads(before);
  for (size_t i = 0; i < found[0].size(); ++i) EXPECT_TRUE(at::equal(found[0][i], found[1][i]));
}

TEST(HeadNorm, OnMetaHasTheShapesOfTheRealOne) {
  for (const at::ScalarType type : all_types()) {
    for (const Case& which : kCases) {
      const Tensors in = inputs_of(type);
      Tensors dry_in;
      for (const at::Tensor& input : in) {
        dry_in.push_back(input.detach().to(at::kMeta).requires_grad_());
      }
      const at::Tensor y = run(which, dry_in);
      Tensors dry =
          torch::autograd::grad({y}, dry_in, {at::empty_like(y)}, std::nullopt, false, true);
      dry.push_back(y.detach());
      const Tensors real = results_of(run(which, in), in);
      for (size_t i = 0; i < real.size(); ++i) expect_same_shape(dry[i], real[i]);
    }
  }
}

TEST(HeadNorm, AgreesOnAnyDevice) {
  using Optional = std::optional<at::Tensor>;
  using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  using Forward = Three(const at::Tensor&, const at::Tensor&, const Optional&, bool, bool, double);
  using Backward = Three(const at::Tensor&, const at::Tensor&, const Optional&, const at::Tensor&,
                         const at::Tensor&, bool, bool);
  static const auto forward = find_operator<Forward>("colossal::head_norm");
  static const auto backward = find_operator<Backward>("colossal::head_norm_backward");
  const c10::DispatchKeySet other(c10::DispatchKey::XLA);  // a device without kernels of ours
  const at::NoGradGuard no_grad;
  const auto expect_agree = [](const Three& theirs, const Three& ours) {
    const auto agree = [](const at::Tensor& a, const at::Tensor& b) {
      ASSERT_EQ(a.defined(), b.defined());
      if (b.defined()) expect_near(a, b, 1e-13);
    };
    agree(std::get<0>(theirs), std::get<0>(ours));
    agree(std::get<1>(theirs), std::get<1>(ours));
    agree(std::get<2>(theirs), std::get<2>(ours));
  };
  for (const Case& which : kCases) {
    const Tensors in = inputs_of(at::kDouble);
    const Optional bias = which.bias ? Optional(in[2]) : std::nullopt;
    const bool offset = which.unit_offset;
    const Three ours = forward.call(in[0], in[1], bias, offset, which.centered, kEpsilon);
    expect_agree(forward.redispatch(other, in[0], in[1], bias, offset, which.centered, kEpsilon),
                 ours);
    const at::Tensor g = normal(in[0].sizes(), at::kDouble, 5);
    const auto& [y, mean, inverse] = ours;
    expect_agree(backward.redispatch(other, g, in[0], mean, inverse, in[1], offset, which.bias),
                 backward.call(g, in[0], mean, inverse, in[1], offset, which.bias));
  }
}

TEST(HeadNorm, RefusesOtherSizesAndTypes) {
  const at::Tensor x = at::zeros({2, 3, 8});
  EXPECT_THROW(norm_heads(x, at::zeros({4, 8}), {}, false, false, 1e-5), InternalError);
  EXPECT_THROW(norm_heads(x, at::zeros({2, 7}), {}, false, false, 1e-5), InternalError);
  EXPECT_THROW(norm_heads(x, at::zeros({2, 8}, at::kDouble), {}, false, false, 1e-5),
               InternalError);
}

}  // namespace head_norm_test
}  // namespace colossal::ops
