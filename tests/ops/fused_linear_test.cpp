#include "colossal/ops/product/fused_linear.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

TEST(FusedLinear, IsItsProductsSideBySideWithTheirGradients) {
  for (const at::ScalarType type : all_types()) {
    for (const bool with_biases : {false, true}) {
      const auto make = [&](at::IntArrayRef sizes, uint64_t seed) {
        return normal(sizes, at::kBFloat16, seed).to(type).requires_grad_();
      };
      const auto widen = [](const std::vector<at::Tensor>& given) {
        std::vector<at::Tensor> wide;
        for (const at::Tensor& t : given) {
          wide.push_back(t.detach().to(at::kDouble).requires_grad_());
        }
        return wide;
      };
      const at::Tensor x = make({3, 5, 17}, 1);
      const std::vector<at::Tensor> weights{make({7, 17}, 2), make({3, 17}, 3), make({1, 17}, 4)};
      std::vector<at::Tensor> biases;
      if (with_biases) biases = {make({7}, 5), make({3}, 6), make({1}, 7)};
      const at::Tensor g = normal({3, 5, 11}, at::kBFloat16, 8);

      std::vector<at::Tensor> inputs{x};
      inputs.insert(inputs.end(), weights.begin(), weights.end());
      inputs.insert(inputs.end(), biases.begin(), biases.end());
      const at::Tensor y = fused_linear(x, {weights, biases});
      const auto gradients = torch::autograd::grad({y}, inputs, {g.to(type)});

      const std::vector<at::Tensor> wide = widen(inputs);
      std::vector<at::Tensor> parts;
      for (size_t i = 0; i < weights.size(); ++i) {
        parts.push_back(at::linear(wide[0], wide[1 + i], with_biases ? wide[4 + i] : at::Tensor()));
      }
      const at::Tensor expected = at::cat(parts, -1);
      const auto wide_gradients = torch::autograd::grad({expected}, wide, {g.to(at::kDouble)});
      expect_near(y.detach(), expected.detach(), tolerance_of(type));
      for (size_t i = 0; i < wide.size(); ++i) {
        expect_near(gradients[i], wide_gradients[i], tolerance_of(type));
      }
    }
  }
}

// One weight, in the order of either file format; what is frozen has no gradient.
TEST(FusedLinear, OfOneWeightIsLinear) {
  for (const at::ScalarType type : all_types()) {
    for (const bool in_out : {false, true}) {
      for (const size_t frozen : {0, 1, 2, 3}) {
        const at::Tensor x = normal({3, 5, 17}, at::kBFloat16, 1).to(type);
        const at::Tensor stored =
            normal(in_out ? at::IntArrayRef{17, 7} : at::IntArrayRef{7, 17}, at::kBFloat16, 2)
                .to(type);
        const at::Tensor bias = normal({7}, at::kBFloat16, 3).to(type);
        const at::Tensor g = normal({3, 5, 7}, at::kBFloat16, 4);
        std::vector<at::Tensor> inputs{x, stored, bias}, wide, trained, wide_trained;
        for (size_t i = 0; i < inputs.size(); ++i) {
          wide.push_back(inputs[i].to(at::kDouble, /*non_blocking=*/false, /*copy=*/true));
          if (i == frozen) continue;
          trained.push_back(inputs[i].requires_grad_());
          wide_trained.push_back(wide[i].requires_grad_());
        }
        const auto oriented = [&](const at::Tensor& weight) {
          return in_out ? weight.t() : weight;
        };
        const at::Tensor y = fused_linear(x, {{oriented(stored)}, {bias}});
        const auto gradients = torch::autograd::grad({y}, trained, {g.to(type)});
        const at::Tensor expected = at::linear(wide[0], oriented(wide[1]), wide[2]);
        const auto wide_gradients =
            torch::autograd::grad({expected}, wide_trained, {g.to(at::kDouble)});
        expect_near(y.detach(), expected.detach(), tolerance_of(type));
        for (size_t i = 0; i < trained.size(); ++i) {
          expect_near(gradients[i], wide_gradients[i], tolerance_of(type));
          EXPECT_TRUE(gradients[i].is_contiguous());
        }
      }
    }
  }
}

TEST(FusedLinear, RunsOnMeta) {
  const auto empty = [](at::IntArrayRef sizes) {
    return at::empty(sizes, at::TensorOptions(at::kMeta)).requires_grad_();
  };
  const at::Tensor x = empty({3, 5, 17}), weight = empty({7, 17}), other = empty({3, 17});
  const at::Tensor y = fused_linear(x, {{weight, other}, {}});
  EXPECT_EQ(y.sizes(), at::IntArrayRef({3, 5, 10}));
  const auto gradients = torch::autograd::grad({y.sum()}, {x, weight, other});
  EXPECT_EQ(gradients[0].sizes(), x.sizes());
  EXPECT_EQ(gradients[2].sizes(), other.sizes());
}

}  // namespace
}  // namespace colossal::ops
