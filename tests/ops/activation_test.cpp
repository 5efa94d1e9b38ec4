#include "colossal/ops/activation.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "colossal/ops/fallback/dispatch.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace activation_test {

TEST(GeluTanh, IsRightFarFromZero) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x =
        at::tensor({-1e4, -100.0, -20.0, -6.0, 0.0, 6.0, 20.0, 100.0, 1e4}, at::kDouble).to(type);
    const at::Tensor leaf = x.detach().requires_grad_();
    const at::Tensor y = activate(leaf, Activation::gelu_tanh);
    const at::Tensor gradient = torch::autograd::grad({y.sum()}, {leaf})[0];
    const at::Tensor expected = at::gelu(x.to(at::kDouble), "tanh");
    EXPECT_TRUE(at::allclose(y.detach().to(at::kDouble), expected, tolerance_of(type), 1e-6));
    const at::Tensor ends = at::tensor({0.0, 0.0, 1.0, 1.0}, at::kDouble).to(type);
    const at::Tensor indices = at::tensor({0, 1, 7, 8}, at::kLong);
    EXPECT_TRUE(at::allclose(gradient.index_select(0, indices), ends, 0, 1e-20));
  }
}

TEST(Swiglu, IsRightFarFromZero) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x = at::tensor({-1e4, 2.0, -100.0, 2.0, 100.0, 2.0, 1e4, 2.0}, at::kDouble)
                             .view({4, 2})
                             .to(type)
                             .requires_grad_();
    const at::Tensor y = activate_gate(x, Activation::silu);
    const at::Tensor expected = at::tensor({0.0, 0.0, 200.0, 2e4}, at::kDouble).view({4, 1});
    EXPECT_TRUE(at::allclose(y.detach().to(at::kDouble), expected, tolerance_of(type), 1e-20));
    EXPECT_TRUE(at::isfinite(torch::autograd::grad({y.sum()}, {x})[0]).all().item<bool>());
  }
}

// Formulas of an activation in PyTorch, of transformers' activations.py.
at::Tensor formula(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * x * (1 + at::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))));
    case Activation::quick_gelu:
      return x / (1 + (-1.702 * x).exp());
    case Activation::silu:
      return x / (1 + (-x).exp());
    case Activation::relu:
      return x * x.gt(0);
    case Activation::relu_squared:
      return x * x * x.gt(0);
    case Activation::tanh:
      return at::tanh(x);
  }
  return {};
}

constexpr Activation kAll[] = {Activation::gelu, Activation::gelu_tanh, Activation::quick_gelu,
                               Activation::silu, Activation::relu,      Activation::relu_squared,
                               Activation::tanh};

TEST(Activations, EqualTheirFormulasWithTheirGradients) {
  for (const at::ScalarType type : all_types()) {
    for (const Activation kind : kAll) {
      for (const bool gated : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, activation {}, gated {}", c10::toString(type),
                                 static_cast<int>(kind), gated));
        const at::Tensor start = normal({3, 5, 34}, at::kBFloat16, 1);
        const at::Tensor x = start.to(type).requires_grad_();
        const at::Tensor wide = start.to(at::kDouble).requires_grad_();
        const at::Tensor y = gated ? activate_gate(x, kind) : activate(x, kind);
        const at::Tensor expected =
            gated ? formula(wide.narrow(-1, 0, 17), kind) * wide.narrow(-1, 17, 17)
                  : formula(wide, kind);
        const at::Tensor g = normal(y.sizes(), at::kBFloat16, 2);
        expect_near(y.detach(), expected.detach(), tolerance_of(type));
        expect_near(torch::autograd::grad({y}, {x}, {g.to(type)})[0],
                    torch::autograd::grad({expected}, {wide}, {g.to(at::kDouble)})[0],
                    tolerance_of(type));
        EXPECT_EQ(y.scalar_type(), type);
      }
    }
  }
}

TEST(Activations, AgreeOnAnyDevice) {
  using Forward = at::Tensor(const at::Tensor&, int64_t);
  using Backward = at::Tensor(const at::Tensor&, const at::Tensor&, int64_t);
  const c10::DispatchKeySet other(c10::DispatchKey::XLA);  // a device without kernels of ours
  const at::NoGradGuard no_grad;
  for (const std::string name : {"colossal::activation", "colossal::gated_activation"}) {
    const auto forward = find_operator<Forward>(name.c_str());
    const auto backward = find_operator<Backward>((name + "_backward").c_str());
    for (const Activation kind : kAll) {
      SCOPED_TRACE(fmt::format("{} {}", name, static_cast<int>(kind)));
      const auto code = static_cast<int64_t>(kind);
      const at::Tensor x = normal({3, 34}, at::kDouble, 1);
      const at::Tensor y = forward.call(x, code);
      expect_near(forward.redispatch(other, x, code), y, 1e-13);
      const at::Tensor g = normal(y.sizes(), at::kDouble, 2);
      expect_near(backward.redispatch(other, g, x, code), backward.call(g, x, code), 1e-13);
    }
  }
}

TEST(Activations, AreFoundByTransformersNames) {
  EXPECT_EQ(activation_of("gelu_pytorch_tanh"), Activation::gelu_tanh);
  EXPECT_EQ(activation_of("swish"), Activation::silu);
  EXPECT_EQ(activation_of("relu2"), Activation::relu_squared);
  EXPECT_EQ(activation_of("mish"), std::nullopt);
  for (const std::string& name : activation_names()) EXPECT_TRUE(activation_of(name)) << name;
}

TEST(Activations, RunOnMeta) {
  for (const at::ScalarType type : all_types()) {
    for (const Activation kind : kAll) {
      const auto run = [&](at::Device device) {
        const at::Tensor x = normal({2, 3, 8}, type, 1).to(device).requires_grad_();
        const at::Tensor y = activate_gate(activate(x, kind), kind);
        std::vector<at::Tensor> results = torch::autograd::grad({y}, {x}, {at::empty_like(y)});
        results.push_back(y);
        return results;
      };
      const auto dry = run(at::kMeta), real = run(at::kCPU);
      for (size_t i = 0; i < real.size(); ++i) expect_same_shape(dry[i], real[i]);
    }
  }
}

}  // namespace activation_test
}  // namespace colossal::ops
