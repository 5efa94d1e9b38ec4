#include "colossal/ops/elementwise.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "colossal/ops/meta_kernels.h"
#include "colossal/ops/rms_norm.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

TEST(GeluNew, EqualsItsFormulaWithItsGradient) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor start = normal({3, 5, 17}, at::kBFloat16, 1);
    const at::Tensor x = start.to(type).requires_grad_();
    const at::Tensor wide = start.to(at::kDouble).requires_grad_();
    const at::Tensor y = gelu_new(x);
    const at::Tensor expected =
        0.5 * wide * (1 + at::tanh(std::sqrt(2 / M_PI) * (wide + 0.044715 * wide.pow(3))));
    expect_near(y.detach(), expected.detach(), tolerance_of(type));
    expect_near(torch::autograd::grad({y.sum()}, {x})[0],
                torch::autograd::grad({expected.sum()}, {wide})[0], tolerance_of(type));
    EXPECT_EQ(y.scalar_type(), type);
  }
}

TEST(GeluNew, IsRightFarFromZero) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x =
        at::tensor({-1e4, -100.0, -20.0, -6.0, 0.0, 6.0, 20.0, 100.0, 1e4}, at::kDouble).to(type);
    const at::Tensor leaf = x.detach().requires_grad_();
    const at::Tensor y = gelu_new(leaf);
    const at::Tensor gradient = torch::autograd::grad({y.sum()}, {leaf})[0];
    const at::Tensor expected = at::gelu(x.to(at::kDouble), "tanh");
    EXPECT_TRUE(at::allclose(y.detach().to(at::kDouble), expected, tolerance_of(type), 1e-6));
    const at::Tensor ends = at::tensor({0.0, 0.0, 1.0, 1.0}, at::kDouble).to(type);
    const at::Tensor indices = at::tensor({0, 1, 7, 8}, at::kLong);
    EXPECT_TRUE(at::allclose(gradient.index_select(0, indices), ends, 0, 1e-20));
  }
}

TEST(Swiglu, EqualsItsFormulaWithItsGradient) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor start = normal({3, 5, 34}, at::kBFloat16, 1);
    const at::Tensor g = normal({3, 5, 17}, at::kBFloat16, 2);
    const at::Tensor x = start.to(type).requires_grad_();
    const at::Tensor wide = start.to(at::kDouble).requires_grad_();
    const at::Tensor y = swiglu(x);
    const at::Tensor gate = wide.narrow(-1, 0, 17);
    const at::Tensor expected = gate / (1 + (-gate).exp()) * wide.narrow(-1, 17, 17);
    expect_near(y.detach(), expected.detach(), tolerance_of(type));
    expect_near(torch::autograd::grad({y}, {x}, {g.to(type)})[0],
                torch::autograd::grad({expected}, {wide}, {g.to(at::kDouble)})[0],
                tolerance_of(type));
    EXPECT_EQ(y.scalar_type(), type);
  }
}

TEST(Swiglu, IsRightFarFromZero) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x = at::tensor({-1e4, 2.0, -100.0, 2.0, 100.0, 2.0, 1e4, 2.0}, at::kDouble)
                             .view({4, 2})
                             .to(type)
                             .requires_grad_();
    const at::Tensor y = swiglu(x);
    const at::Tensor expected = at::tensor({0.0, 0.0, 200.0, 2e4}, at::kDouble).view({4, 1});
    EXPECT_TRUE(at::allclose(y.detach().to(at::kDouble), expected, tolerance_of(type), 1e-20));
    EXPECT_TRUE(at::isfinite(torch::autograd::grad({y.sum()}, {x})[0]).all().item<bool>());
  }
}

TEST(RmsNorm, EqualsItsFormulaWithItsGradients) {
  for (const at::ScalarType type : all_types()) {
    for (const int64_t features : {17, 1531}) {
      const auto make = [&](at::IntArrayRef sizes, uint64_t seed) {
        return normal(sizes, at::kBFloat16, seed).to(type).requires_grad_();
      };
      const at::Tensor x = make({29, 5, features}, 1), weight = make({features}, 2);
      const at::Tensor g = normal({29, 5, features}, at::kBFloat16, 4);
      const at::Tensor y = rms_norm(x, weight, 1e-5);
      const auto gradients = torch::autograd::grad({y}, {x, weight}, {g.to(type)});
      const at::Tensor wide_x = x.detach().to(at::kDouble).requires_grad_();
      const at::Tensor wide_weight = weight.detach().to(at::kDouble).requires_grad_();
      const at::Tensor expected =
          wide_x / (wide_x.square().mean(-1, true) + 1e-5).sqrt() * wide_weight;
      const auto wide_gradients =
          torch::autograd::grad({expected}, {wide_x, wide_weight}, {g.to(at::kDouble)});
      expect_near(y.detach(), expected.detach(), tolerance_of(type));
      for (size_t i = 0; i < 2; ++i) {
        expect_near(gradients[i], wide_gradients[i], tolerance_of(type));
      }
    }
  }
}

TEST(RmsNorm, TakesAnEmptyBatch) {
  const at::Tensor x = at::empty({0, 3, 8}).requires_grad_();
  const at::Tensor weight = normal({8}, at::kFloat, 1).requires_grad_();
  const at::Tensor y = rms_norm(x, weight, 1e-5);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 3, 8}));
  EXPECT_EQ(torch::autograd::grad({y.sum()}, {weight})[0].norm().item<float>(), 0);
}

TEST(LayerNorm, EqualsItsFormulaWithItsGradients) {
  for (const at::ScalarType type : all_types()) {
    const auto make = [&](at::IntArrayRef sizes, uint64_t seed) {
      return normal(sizes, at::kBFloat16, seed).to(type).requires_grad_();
    };
    const at::Tensor x = make({3, 5, 17}, 1), weight = make({17}, 2), bias = make({17}, 3);
    const at::Tensor g = normal({3, 5, 17}, at::kBFloat16, 4);
    const at::Tensor y = layer_norm(x, weight, bias, 1e-5);
    const auto gradients = torch::autograd::grad({y}, {x, weight, bias}, {g.to(type)});
    std::vector<at::Tensor> wide;
    for (const at::Tensor& t : {x, weight, bias}) {
      wide.push_back(t.detach().to(at::kDouble).requires_grad_());
    }
    const at::Tensor centred = wide[0] - wide[0].mean(-1, true);
    const at::Tensor variance = centred.square().mean(-1, true);
    const at::Tensor expected = centred / (variance + 1e-5).sqrt() * wide[1] + wide[2];
    const auto wide_gradients = torch::autograd::grad({expected}, wide, {g.to(at::kDouble)});
    expect_near(y.detach(), expected.detach(), tolerance_of(type));
    for (size_t i = 0; i < 3; ++i) expect_near(gradients[i], wide_gradients[i], tolerance_of(type));
  }
}

TEST(LayerNorm, TakesNoBiasAndAnEmptyBatch) {
  const at::Tensor weight = normal({8}, at::kFloat, 1);
  EXPECT_EQ(layer_norm(normal({2, 3, 8}, at::kFloat, 2), weight, {}, 1e-5).dim(), 3);
  EXPECT_EQ(layer_norm(at::empty({0, 3, 8}), weight, {}, 1e-5).sizes(), at::IntArrayRef({0, 3, 8}));
}

TEST(Elementwise, RunOnMeta) {
  register_meta_kernels();
  for (const at::ScalarType type : all_types()) {
    const auto run = [&](at::Device device) {
      const auto make = [&](at::IntArrayRef sizes) {
        return normal(sizes, type, 1).to(device).requires_grad_();
      };
      const at::Tensor x = make({2, 3, 8}), weight = make({8}), bias = make({8});
      const at::Tensor y =
          swiglu(gelu_new(layer_norm(rms_norm(x, weight, 1e-5), weight, bias, 1e-5)));
      std::vector<at::Tensor> results =
          torch::autograd::grad({y}, {x, weight, bias}, {at::empty_like(y)});
      results.push_back(y);
      return results;
    };
    const auto dry = run(at::kMeta), real = run(at::kCPU);
    for (size_t i = 0; i < real.size(); ++i) expect_same_shape(dry[i], real[i]);
  }
}

}  // namespace
}  // namespace colossal::ops
