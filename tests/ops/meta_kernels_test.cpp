// Each rule against the operator it stands for.
#include "colossal/ops/fallback/meta_kernels.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

class MetaKernels : public testing::Test {
 protected:
  void SetUp() override { register_meta_kernels(); }

  // function(inputs) must give the same shapes and types for real inputs and for meta ones.
  static void expect_same(const Tensors& inputs,
                          const std::function<Tensors(const Tensors&)>& function) {
    Tensors meta;
    for (const at::Tensor& input : inputs) {
      meta.push_back(input.to(at::kMeta).requires_grad_(input.requires_grad()));
    }
    const Tensors real_results = function(inputs), meta_results = function(meta);
    ASSERT_EQ(real_results.size(), meta_results.size());
    for (size_t i = 0; i < real_results.size(); ++i) {
      SCOPED_TRACE(i);
      expect_same_shape(meta_results[i], real_results[i]);
    }
  }
};

TEST_F(MetaKernels, RegisterOnce) {
  register_meta_kernels();
  register_meta_kernels();
}

TEST_F(MetaKernels, LayerNormAndItsBackward) {
  const auto function = [](const Tensors& in) {
    auto [y, mean, rstd] = at::native_layer_norm(in[0], {8}, in[1], in[2], 1e-5);
    auto [dx, dw, db] = at::native_layer_norm_backward(y, in[0], {8}, mean, rstd, in[1], in[2],
                                                       {true, false, true});
    return Tensors{y, mean, rstd, dx, dw, db};
  };
  for (const at::ScalarType type : all_types()) {
    expect_same({normal({2, 3, 8}, type, 1), normal({8}, type, 2), normal({8}, type, 3)}, function);
  }
  expect_same(
      {normal({2, 3, 8}, at::kBFloat16, 1), normal({8}, at::kFloat, 2), normal({8}, at::kFloat, 3)},
      function);
  expect_same({normal({2, 3, 8}, at::kFloat, 1)}, [](const Tensors& in) {
    auto [y, mean, rstd] = at::native_layer_norm(in[0], {3, 8}, {}, {}, 1e-5);
    return Tensors{y, mean, rstd};
  });
}

TEST_F(MetaKernels, EmbeddingAndItsBackward) {
  const at::Tensor tokens = at::tensor({3, 1, 4, 1, 5, 0}, at::kLong).view({2, 3});
  for (const at::ScalarType type : all_types()) {
    expect_same({normal({7, 4}, type, 1).requires_grad_(), tokens}, [](const Tensors& in) {
      const at::Tensor y = at::embedding(in[0], in[1]);
      return Tensors{y, torch::autograd::grad({y.sum()}, {in[0]})[0]};
    });
  }
  expect_same({normal({3, 7, 4}, at::kFloat, 1), tokens.view(-1)}, [](const Tensors& in) {
    return Tensors{at::index_select(in[0], 1, in[1]), at::index_select(in[0], -2, in[1])};
  });
}

TEST_F(MetaKernels, Where) {
  const at::Tensor condition = normal({3, 1}, at::kFloat, 1) > 0;
  expect_same({condition, normal({4}, at::kFloat, 2), normal({2, 3, 1}, at::kDouble, 3)},
              [](const Tensors& in) {
                at::Tensor out = at::empty({0}, in[1].options().dtype(at::kDouble));
                at::where_out(out, in[0], in[1], in[2]);
                return Tensors{at::where(in[0], in[1], in[2]), at::where(in[0], in[1], 0.5), out};
              });
}

TEST_F(MetaKernels, AbsIntoATensor) {
  expect_same({normal({3, 5}, at::kFloat, 1)}, [](const Tensors& in) {
    at::Tensor out = at::empty({0}, in[0].options());
    at::abs_out(out, in[0]);
    return Tensors{out, in[0].abs(), at::logsumexp(in[0], {1}), at::isfinite(in[0])};
  });
}

TEST_F(MetaKernels, NativeDropoutAndItsBackward) {
  expect_same({normal({3, 5}, at::kBFloat16, 1)}, [](const Tensors& in) {
    auto [y, mask] = at::native_dropout(in[0], 0.3, true);
    return Tensors{y, mask, at::native_dropout_backward(y, mask, 1 / 0.7)};
  });
}

TEST_F(MetaKernels, LogSigmoidAndItsBackward) {
  expect_same({normal({3, 5}, at::kFloat, 1).requires_grad_()}, [](const Tensors& in) {
    const at::Tensor y = at::log_sigmoid(in[0]);
    return Tensors{y, torch::autograd::grad({y.sum()}, {in[0]})[0]};
  });
}

TEST_F(MetaKernels, FlipAndRoll) {
  expect_same({normal({3, 5, 2}, at::kFloat, 1), normal({3, 5}, at::kFloat, 2).t()},
              [](const Tensors& in) {
                return Tensors{at::flip(in[0], {0, 2}), at::roll(in[0], {1}, {0}),
                               at::flip(in[1], {0}), at::roll(in[1], {1}, {0})};
              });
}

TEST_F(MetaKernels, FusedAdamW) {
  const at::Tensor meta = at::empty({5}, at::TensorOptions(at::kMeta).dtype(at::kFloat));
  const Tensors one = {meta};
  at::_fused_adamw_(one, one, one, one, {}, one, 1e-3, 0.9, 0.95, 0.1, 1e-8, false, false);
  EXPECT_EQ(meta.numel(), 5);
}

}  // namespace
}  // namespace colossal::ops
