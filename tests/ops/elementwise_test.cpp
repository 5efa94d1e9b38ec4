#include "colossal/ops/elementwise.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

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

TEST(Elementwise, RunOnMeta) {
  for (const at::ScalarType type : all_types()) {
    const auto run = [&](at::Device device) {
      const auto make = [&](at::IntArrayRef sizes) {
        return normal(sizes, type, 1).to(device).requires_grad_();
      };
      const at::Tensor x = make({2, 3, 8});
      const at::Tensor y = swiglu(gelu_new(x));
      std::vector<at::Tensor> results = torch::autograd::grad({y}, {x}, {at::empty_like(y)});
      results.push_back(y);
      return results;
    };
    const auto dry = run(at::kMeta), real = run(at::kCPU);
    for (size_t i = 0; i < real.size(); ++i) expect_same_shape(dry[i], real[i]);
  }
}

}  // namespace
}  // namespace colossal::ops
