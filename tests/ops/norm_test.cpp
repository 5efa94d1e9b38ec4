#include "colossal/ops/norm/norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm/norm_passes.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

// Large, so that gradients of norms of one feature are not all but zero.
constexpr double kEpsilon = 0.1;
// More than one group of rows whose parameters' gradients are summed together.
constexpr int64_t kRows = 3 * 23;
// None a multiple of a vector's width.
constexpr int64_t kFeatures[] = {1, 7, 33, 97, 773};

enum class Has { weight_and_bias, weight, nothing };  // an RMS norm has no bias

struct Case {
  bool centered;    // layer norm, else RMS norm
  bool has_branch;  // of the sum, else of x
  Has has = Has::weight_and_bias;
  bool unit_offset = false;

  bool weight() const { return has != Has::nothing; }
  bool bias() const { return centered && has == Has::weight_and_bias; }
};
constexpr Case kCases[] = {{false, false},
                           {false, true},
                           {true, false},
                           {true, true},
                           {false, false, Has::weight, true},
                           {false, true, Has::weight, true},
                           {true, true, Has::weight_and_bias, true},
                           {true, false, Has::weight},
                           {true, true, Has::weight},
                           {false, true, Has::nothing},
                           {true, false, Has::nothing},
                           {true, true, Has::nothing}};

// x, branch, weight and bias that bf16 holds exactly; a branch or a bias that the case has not stay
// unused.
Tensors inputs_of(int64_t features, at::ScalarType type) {
  Tensors inputs;
  for (const uint64_t seed : {1, 2}) {
    inputs.push_back(normal({3, kRows / 3, features}, at::kBFloat16, seed).to(type));
  }
  for (const uint64_t seed : {3, 4})
    inputs.push_back(normal({features}, at::kBFloat16, seed).to(type));
  for (at::Tensor& input : inputs) input.requires_grad_();
  return inputs;
}

// {sum, norm}
SumAndNorm run(const Case& which, const Tensors& in) {
  const at::Tensor weight = which.weight() ? in[2] : at::Tensor();
  const at::Tensor bias = which.bias() ? in[3] : at::Tensor();
  if (which.has_branch) {
    return which.centered ? add_layer_norm(in[0], in[1], weight, bias, kEpsilon, which.unit_offset)
                          : add_rms_norm(in[0], in[1], weight, kEpsilon, which.unit_offset);
  }
  return {in[0], which.centered ? layer_norm(in[0], weight, bias, kEpsilon, which.unit_offset)
                                : rms_norm(in[0], weight, kEpsilon, which.unit_offset)};
}

SumAndNorm formula(const Case& which, const Tensors& in) {
  const at::Tensor sum = which.has_branch ? in[0] + in[1] : in[0];
  const at::Tensor centered = which.centered ? sum - sum.mean(-1, true) : sum;
  at::Tensor y = centered / (centered.square().mean(-1, true) + kEpsilon).sqrt();
  if (which.weight()) y = y * (which.unit_offset ? 1 + in[2] : in[2]);
  return {sum, which.bias() ? y + in[3] : y};
}

// The sum, the norm, and gradients of all inputs from both (undefined for those that are unused).
Tensors results_of(const SumAndNorm& results, const Tensors& inputs) {
  const auto& [sum, norm] = results;
  const auto gradient = [&](uint64_t seed) {
    return normal(norm.sizes(), at::kBFloat16, seed).to(norm.scalar_type());
  };
  Tensors all = torch::autograd::grad({sum, norm}, inputs, {gradient(5), gradient(6)},
                                      /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                      /*allow_unused=*/true);
  all.insert(all.end(), {sum.detach(), norm.detach()});
  return all;
}

void expect_equal_bits(const Tensors& a, const Tensors& b) {
  for (size_t i = 0; i < b.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(a[i].defined(), b[i].defined());
    if (!a[i].defined()) continue;
    EXPECT_TRUE(at::equal(a[i], b[i]));
  }
}

TEST(Norm, EqualsItsFormulaWithItsGradients) {
  for (const int64_t features : kFeatures) {
    for (const Case& which : kCases) {
      const Tensors wide = inputs_of(features, at::kDouble);
      const Tensors expected = results_of(formula(which, wide), wide);
      for (const at::ScalarType type : all_types()) {
        SCOPED_TRACE(fmt::format("{}, {} features, layer norm {}, with a branch {}, has {}, + 1 {}",
                                 c10::toString(type), features, which.centered, which.has_branch,
                                 static_cast<int>(which.has), which.unit_offset));
        Tensors in;
        for (const at::Tensor& input : wide) {
          in.push_back(input.detach().to(type, false, /*copy=*/true).requires_grad_());
        }
        const Tensors found = results_of(run(which, in), in);
        for (size_t i = 0; i < expected.size(); ++i) {
          SCOPED_TRACE(i);
          ASSERT_EQ(found[i].defined(), expected[i].defined());
          if (!found[i].defined()) continue;
          expect_near(found[i], expected[i], type == at::kBFloat16 ? 1e-2 : tolerance_of(type));
          EXPECT_EQ(found[i].scalar_type(), type);
        }
      }
    }
  }
}

TEST(Norm, OfASumHasTheBitsOfAnAdditionAndANorm) {
  for (const at::ScalarType type : all_types()) {
    for (const bool centered : {false, true}) {
      const Tensors in = inputs_of(97, type);
      const at::Tensor sum = in[0] + in[1];
      const SumAndNorm plain = run({centered, false}, {sum, {}, in[2], in[3]});
      Tensors found = results_of(run({centered, true}, in), in), expected = results_of(plain, in);
      EXPECT_TRUE(at::equal(found[0], found[1]));
      if (type == at::kBFloat16) {  // the gradient of the addends is rounded once, not twice
        for (const size_t addend : {0, 1}) {
          expect_near(found[addend], expected[addend], 1e-2);
          found[addend] = expected[addend] = at::Tensor();
        }
      }
      expect_equal_bits(found, expected);
    }
  }
}

TEST(Norm, HasTheSameBitsWithAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const Tensors in = inputs_of(773, at::kFloat);
  std::vector<Tensors> found;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    found.push_back(results_of(run({true, true}, in), in));
  }
  at::set_num_threads(before);
  expect_equal_bits(found[1], found[0]);
  expect_equal_bits(found[2], found[0]);
}

TEST(Norm, PassesAGradientThatReachesOnlyOneOfItsResults) {
  for (const bool centered : {false, true}) {
    const Tensors in = inputs_of(7, at::kDouble);
    const auto gradients = [&](const at::Tensor& result) {
      return torch::autograd::grad({result.square().sum()}, in, {}, std::nullopt, false, true);
    };
    const Case which{centered, true};
    for (const bool of_norm : {false, true}) {
      const SumAndNorm found = run(which, in), expected = formula(which, in);
      const Tensors a = gradients(of_norm ? found.second : found.first);
      const Tensors b = gradients(of_norm ? expected.second : expected.first);
      for (size_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(a[i].defined(), b[i].defined());
        if (a[i].defined()) expect_near(a[i], b[i], 1e-12);
      }
    }
  }
}

// Gemma's norm in bf16: one rounding, at the end, where Llama's in transformers has one before the
// weight too.
TEST(Norm, WithAUnitOffsetRoundsOnceAsGemmaDoes) {
  const Tensors in = inputs_of(97, at::kBFloat16);
  const at::Tensor x = in[0].detach().to(at::kFloat);
  const at::Tensor normal = x * (x.square().mean(-1, true) + 1e-6).rsqrt();
  const at::Tensor gemma = (normal * (1 + in[2].detach().to(at::kFloat))).to(at::kBFloat16);
  const at::Tensor y = rms_norm(in[0], in[2], 1e-6, /*unit_offset=*/true).detach();
  // The order of a sum may move a number over the border between two of bf16.
  EXPECT_GE(y.eq(gemma).to(at::kDouble).mean().item<double>(), 0.999);
}

TEST(Norm, TakesNoBiasAndAnEmptyBatch) {
  const at::Tensor weight = normal({8}, at::kFloat, 1).requires_grad_();
  const at::Tensor x = normal({2, 3, 8}, at::kFloat, 2).requires_grad_();
  expect_near(layer_norm(x, weight, {}, 1e-5).detach(),
              layer_norm(x, weight, at::zeros({8}), 1e-5).detach(), 1e-6);
  EXPECT_TRUE(torch::autograd::grad({layer_norm(x, weight, {}, 1e-5).sum()}, {x})[0].defined());
  const at::Tensor none = at::empty({0, 3, 8}).requires_grad_();
  for (const at::Tensor& y : {rms_norm(none, weight, 1e-5), layer_norm(none, weight, {}, 1e-5)}) {
    EXPECT_EQ(y.sizes(), none.sizes());
    EXPECT_EQ(torch::autograd::grad({y.sum()}, {weight})[0].norm().item<float>(), 0);
  }
}

TEST(Norm, RefusesOtherSizesAndTypes) {
  const at::Tensor x = at::zeros({2, 8}), weight = at::zeros({8});
  EXPECT_THROW(rms_norm(x, at::zeros({7}), 1e-5), InternalError);
  EXPECT_THROW(layer_norm(x, weight, at::zeros({8}, at::kDouble), 1e-5), InternalError);
  EXPECT_THROW(layer_norm(x, {}, weight, 1e-5), InternalError);
  EXPECT_THROW(add_rms_norm(x, at::zeros({8}), weight, 1e-5), InternalError);
  EXPECT_THROW(add_rms_norm(x, at::zeros({2, 8}, at::kDouble), weight, 1e-5), InternalError);
}

TEST(Norm, OnMetaHasTheShapesOfTheRealOne) {
  for (const at::ScalarType type : all_types()) {
    for (const Case& which : kCases) {
      const Tensors in = inputs_of(7, type);
      Tensors dry_in;
      for (const at::Tensor& input : in) {
        dry_in.push_back(input.detach().to(at::kMeta).requires_grad_());
      }
      const Tensors real = results_of(run(which, in), in);
      const auto [sum, norm] = run(which, dry_in);
      Tensors dry =
          torch::autograd::grad({sum, norm}, dry_in, {at::empty_like(sum), at::empty_like(norm)},
                                std::nullopt, false, true);
      dry.insert(dry.end(), {sum.detach(), norm.detach()});
      for (size_t i = 0; i < real.size(); ++i) expect_same_shape(dry[i], real[i]);
    }
  }
}

// Ranks that share the features are two halves here, whose sums are added by hand.
TEST(NormPasses, OfPartsOfTheFeaturesMakeTheNorm) {
  for (const at::ScalarType type : all_types()) {
    for (const Case& which : kCases) {
      const Tensors in = inputs_of(33, type);
      const Tensors whole = results_of(run(which, in), in);
      const at::Tensor gradient = normal(in[0].sizes(), at::kBFloat16, 6).to(type);
      const at::Tensor sum_gradient = normal(in[0].sizes(), at::kBFloat16, 5).to(type);
      const auto part = [](const at::Tensor& x, int rank) {
        return x.detach().narrow(-1, rank ? 20 : 0, rank ? 13 : 20).contiguous();
      };
      const auto branch_of = [&](int rank) {
        return which.has_branch ? part(in[1], rank) : at::Tensor();
      };
      const auto bias_of = [&](int rank) {
        return which.bias() ? part(in[3], rank) : at::Tensor();
      };
      const auto weight_of = [&](int rank) {
        return which.weight() ? part(in[2], rank) : at::Tensor();
      };
      at::Tensor mean;
      RowSums ranks[2];
      if (which.centered) {
        for (const int rank : {0, 1}) ranks[rank] = row_sums(part(in[0], rank), branch_of(rank));
        mean = (ranks[0].sums + ranks[1].sums) / 33;
      }
      Tensors x;
      at::Tensor squares = at::zeros({kRows}, compute_type(type));
      for (const int rank : {0, 1}) {
        const at::Tensor added = ranks[rank].added;
        const RowSums of_rank = added.defined()
                                    ? squared_deviations(added, {}, mean)
                                    : squared_deviations(part(in[0], rank), branch_of(rank), mean);
        if (of_rank.added.defined()) ranks[rank].added = of_rank.added;
        x.push_back(which.has_branch ? ranks[rank].added : part(in[0], rank));
        squares += of_rank.sums;
      }
      const at::Tensor inverse = (squares / 33 + kEpsilon).rsqrt();
      at::Tensor sums;
      std::vector<NormGradientSums> of_ranks;
      for (const int rank : {0, 1}) {
        of_ranks.push_back(norm_gradient_sums(part(gradient, rank), x[rank], mean, inverse,
                                              weight_of(rank), which.unit_offset));
        sums = rank ? sums + of_ranks[rank].sums : of_ranks[rank].sums;
      }
      const double tolerance = type == at::kBFloat16 ? 1e-2 : tolerance_of(type);
      for (const int rank : {0, 1}) {
        expect_near(
            normalize(x[rank], mean, inverse, weight_of(rank), bias_of(rank), which.unit_offset),
            part(whole[5], rank), tolerance);
        const at::Tensor straight = part(sum_gradient, rank);
        expect_near(norm_input_gradient(part(gradient, rank), x[rank], mean, inverse,
                                        weight_of(rank), which.unit_offset, sums / 33, straight),
                    part(whole[0], rank), tolerance);
        EXPECT_EQ(of_ranks[rank].weight_gradient.defined(), which.weight());
        if (!which.weight()) continue;
        expect_near(of_ranks[rank].weight_gradient, part(whole[2], rank), tolerance);
        if (which.bias()) {
          expect_near(of_ranks[rank].bias_gradient, part(whole[3], rank), tolerance);
        }
      }
    }
  }
}

// Through the dispatcher, as tensors on a GPU would come.
TEST(Norm, AgreesOnAnyDevice) {
  using Optional = std::optional<at::Tensor>;
  using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
      const at::Tensor&, const Optional&, const Optional&, const Optional&, bool, bool, double);
  using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const Optional&, const at::Tensor&, const Optional&,
      bool, const Optional&);
  static const auto forward = find_operator<Forward>("colossal::norm");
  static const auto backward = find_operator<Backward>("colossal::norm_backward");
  const c10::DispatchKeySet other(c10::DispatchKey::XLA);  // a device without kernels of ours
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : all_types()) {
    for (const Case& which : kCases) {
      Tensors in = inputs_of(33, type);
      const Optional branch = which.has_branch ? Optional(in[1]) : std::nullopt;
      const Optional weight = which.weight() ? Optional(in[2]) : std::nullopt;
      const Optional bias = which.bias() ? Optional(in[3]) : std::nullopt;
      const bool offset = which.unit_offset;
      const auto ours = forward.call(in[0], branch, weight, bias, offset, which.centered, kEpsilon);
      const auto theirs =
          forward.redispatch(other, in[0], branch, weight, bias, offset, which.centered, kEpsilon);
      const auto& [sum, y, mean, inverse] = ours;
      const at::Tensor& x = which.has_branch ? sum : in[0];
      const auto our_gradients = backward.call(in[1], x, mean, inverse, weight, offset, branch);
      const auto their_gradients =
          backward.redispatch(other, in[1], x, mean, inverse, weight, offset, branch);
      const auto expect_agree = [&](const at::Tensor& theirs, const at::Tensor& ours) {
        ASSERT_EQ(theirs.defined(), ours.defined());
        if (!ours.defined()) return;
        expect_near(theirs, ours, tolerance_of(type));
        EXPECT_EQ(theirs.scalar_type(), ours.scalar_type());
      };
      std::apply(
          [&](const auto&... a) {
            std::apply([&](const auto&... b) { (expect_agree(a, b), ...); }, ours);
          },
          theirs);
      std::apply(
          [&](const auto&... a) {
            std::apply([&](const auto&... b) { (expect_agree(a, b), ...); }, our_gradients);
          },
          their_gradients);
    }
  }
}

}  // namespace
}  // namespace colossal::ops
