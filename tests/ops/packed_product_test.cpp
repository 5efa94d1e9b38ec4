#include "colossal/ops/product/packed_product.h"

#include <gtest/gtest.h>

#include "colossal/ops/product/few_rows.h"
#include "colossal/ops/product/fused_linear.h"
#include "colossal/ops/product/grouped_product.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace packed_product_test {

// Weights side by side, packed, and as the numbers that are kept of them.
struct Weights {
  PackedWeights packed;
  FusedWeights numbers;

  Weights(PackedType type, const std::vector<int64_t>& outputs, int64_t inputs,
          at::ScalarType compute, at::Device device = at::kCPU) {
    for (const int64_t rows : outputs) {
      const auto layout =
          std::make_shared<const PackedLayout>(PackedLayout::whole(type, rows, inputs));
      const at::Tensor weight = at::arange(rows * inputs, at::kDouble)
                                    .mul_(0.37)
                                    .sin_()
                                    .to(at::kFloat)
                                    .view({rows, inputs});
      const at::Tensor bytes = pack(weight, block_maxima(weight, *layout), *layout);
      const at::Tensor bias = normal({rows}, compute, 1 + static_cast<uint64_t>(rows));
      numbers.weights.push_back(unpack(bytes, *layout, compute));
      numbers.biases.push_back(bias);
      packed.bytes.push_back(bytes.to(device));
      packed.layouts.push_back(layout);
      packed.biases.push_back(bias.to(device));
    }
  }
};

// Stacks of groups, one of which has no rows.
TEST(PackedProduct, OfGroupsIsThatOfTheirNumbers) {
  const std::vector<int64_t> counts{3, 0, 5};
  constexpr int64_t kGroups = 3, kInputs = 150;
  for (const PackedType type : {PackedType::int8, PackedType::nf4}) {
    for (const at::ScalarType compute : all_types()) {
      Weights weights(type, {kGroups * 5, kGroups * 37}, kInputs, compute);
      weights.packed.biases.clear();
      std::vector<at::Tensor> stacks;
      for (const at::Tensor& numbers : weights.numbers.weights) {
        stacks.push_back(numbers.unflatten(0, {kGroups, -1}));
      }
      const at::Tensor rows = normal({8, kInputs}, compute, 7);
      const at::Tensor of_packed = rows.clone().requires_grad_(true),
                       of_numbers = rows.clone().requires_grad_(true);
      const at::Tensor y = packed_grouped_product(of_packed, counts, weights.packed),
                       expected = grouped_product(of_numbers, counts, stacks);
      expect_near(y, expected, tolerance_of(compute));
      const at::Tensor gradient = normal(y.sizes(), compute, 8);
      y.backward(gradient);
      expected.backward(gradient);
      expect_near(of_packed.grad(), of_numbers.grad(), tolerance_of(compute));
      EXPECT_EQ(packed_grouped_product(rows.narrow(0, 0, 0), {0, 0, 0}, weights.packed).sizes(),
                at::IntArrayRef({0, 42}));
    }
  }
}

// More numbers than are made at a time, few rows, and sizes that fill no block.
TEST(PackedProduct, IsThatOfTheNumbersForwardAndBackward) {
  struct Sizes {
    std::vector<int64_t> outputs;
    int64_t inputs, tokens;
  };
  for (const Sizes& sizes :
       std::vector<Sizes>{{{5, 37}, 150, 3}, {{64}, 64, 40}, {{2100, 3, 900}, 4110, 40}}) {
    for (const PackedType type : {PackedType::int8, PackedType::nf4}) {
      for (const at::ScalarType compute : all_types()) {
        const Weights weights(type, sizes.outputs, sizes.inputs, compute);
        const at::Tensor x = normal({2, sizes.tokens, sizes.inputs}, compute, 7);
        const at::Tensor of_packed = x.clone().requires_grad_(true),
                         of_numbers = x.clone().requires_grad_(true);
        const at::Tensor y = packed_linear(of_packed, weights.packed),
                         expected = fused_linear(of_numbers, weights.numbers);
        expect_near(y, expected, tolerance_of(compute));
        const at::Tensor gradient = normal(y.sizes(), compute, 8);
        y.backward(gradient);
        expected.backward(gradient);
        expect_near(of_packed.grad(), of_numbers.grad(), tolerance_of(compute));
        const at::NoGradGuard no_grad;
        EXPECT_TRUE(packed_linear(x, weights.packed).equal(y));
      }
    }
  }
}

TEST(PackedProduct, ARowHasTheSameBitsInEveryBatch) {
  const Weights weights(PackedType::nf4, {40, 9}, 130, at::kFloat);
  const at::Tensor x = normal({70, 130}, at::kFloat, 5);
  const BatchInvariantProducts scope;
  const at::Tensor all = packed_linear(x, weights.packed);
  EXPECT_TRUE(packed_linear(x.narrow(0, 33, 2), weights.packed).equal(all.narrow(0, 33, 2)));
}

TEST(PackedProduct, IsTheSameOnMeta) {
  const auto run = [](at::Device device) {
    const Weights weights(PackedType::nf4, {40, 9}, 130, at::kBFloat16, device);
    const at::Tensor x = normal({70, 130}, at::kBFloat16, 5).to(device).requires_grad_(true);
    const at::Tensor y = packed_linear(x, weights.packed);
    y.backward(at::ones_like(y));
    return std::pair{y, x.grad()};
  };
  const auto [y, gradient] = run(at::kMeta);
  const auto [real_y, real_gradient] = run(at::kCPU);
  expect_same_shape(y, real_y);
  expect_same_shape(gradient, real_gradient);
}

}  // namespace packed_product_test
}  // namespace colossal::ops
