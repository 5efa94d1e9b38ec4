// GPTQ and AWQ against their definitions, on matrices so small that these can be followed.
#include "colossal/ops/product/gptq.h"

#include <gtest/gtest.h>

#include <vector>

#include "colossal/base/error.h"
#include "colossal/ops/product/awq.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

using Type = Quantization::Type;

constexpr double kDamping = 0.01;

// Rows of inputs of which some are larger, and neighbors go together.
at::Tensor inputs_seen(int64_t rows, int64_t inputs) {
  const at::Tensor x = normal({rows, inputs}, at::kDouble, 1);
  const at::Tensor sizes = at::linspace(0.2, 3, inputs, at::kDouble).flip(0);
  return (x + 0.7 * x.roll({1}, {1})) * sizes;
}

// Rounded with these scales, one group for all inputs.
at::Tensor nearest(const at::Tensor& numbers, const GroupScales& scales) {
  const at::Tensor zero =
      scales.zeros.defined() ? scales.zeros.to(at::kDouble) : at::full({1, 1}, 8.0, at::kDouble);
  const at::Tensor scale = scales.scales.to(at::kDouble);
  return ((((numbers / scale).round() + zero).clamp(0, 15)) - zero) * scale;
}

// What the method approximates nothing of (E. Frantar and D. Alistarh 2022, "Optimal Brain
// Compression", equation 3): after each input, those left take the error over by the inverse of
// their own Hessian. order: of inputs; groups are those of the weight itself.
at::Tensor rounded_by_definition(const at::Tensor& weight, const at::Tensor& hessian,
                                 const std::vector<int64_t>& order, const Quantization& how,
                                 bool scales_beforehand) {
  at::Tensor left = weight.clone(), rounded = at::zeros_like(weight);
  const at::Tensor damped =
      hessian + kDamping * hessian.diagonal().mean() * at::eye(hessian.size(0), at::kDouble);
  Quantization whole = how;
  whole.group = 0;
  GroupScales scales;
  int64_t group_of_scales = -1;
  for (size_t place = 0; place < order.size(); ++place) {
    const int64_t input = order[place], group = input / how.group;
    if (group != group_of_scales) {
      const int64_t begin = group * how.group;
      const int64_t count = std::min(how.group, weight.size(1) - begin);
      scales = choose_scales((scales_beforehand ? weight : left).narrow(1, begin, count), whole);
      group_of_scales = group;
    }
    const at::Tensor rest = at::tensor(
        std::vector<int64_t>(order.begin() + static_cast<std::ptrdiff_t>(place), order.end()));
    const at::Tensor inverse = damped.index_select(0, rest).index_select(1, rest).inverse();
    const at::Tensor value = nearest(left.select(1, input).unsqueeze(1), scales).squeeze(1);
    const at::Tensor error = (left.select(1, input) - value) / inverse[0][0];
    left.index_copy_(1, rest, left.index_select(1, rest) - at::outer(error, inverse[0]));
    rounded.select(1, input).copy_(value);
  }
  return rounded;
}

TEST(Gptq, IsTheDefinitionInTheOrderOfInputs) {
  const at::Tensor weight = normal({5, 75}, at::kDouble, 2);
  const at::Tensor x = inputs_seen(200, 75), hessian = x.t().mm(x);
  std::vector<int64_t> order(75);
  for (int64_t i = 0; i < 75; ++i) order[static_cast<size_t>(i)] = i;
  for (const bool zero_point : {false, true}) {
    const Quantization how{.type = Type::int4, .group = 32, .zero_point = zero_point};
    for (const int64_t block : {1, 16, 128}) {
      const QuantizedMatrix found =
          gptq(weight, hessian, how, {.order_by_activation = false, .block = block});
      expect_near(dequantize(found, at::kDouble),
                  rounded_by_definition(weight, hessian, order, how, false), 1e-6);
    }
  }
}

TEST(Gptq, IsTheDefinitionWithLargeInputsFirst) {
  const at::Tensor weight = normal({5, 75}, at::kDouble, 2);
  const at::Tensor x = inputs_seen(200, 75).roll({20}, {1}), hessian = x.t().mm(x);
  const at::Tensor order = hessian.diagonal().argsort(0, /*descending=*/true).contiguous();
  ASSERT_NE(order[0].item<int64_t>(), 0);
  const Quantization how{.type = Type::int4, .group = 32, .zero_point = true};
  const auto* places = order.const_data_ptr<int64_t>();
  expect_near(dequantize(gptq(weight, hessian, how), at::kDouble),
              rounded_by_definition(weight, hessian, {places, places + 75}, how, true), 1e-6);
}

TEST(Gptq, ChangesProductsLessThanTheNearestNumbersDo) {
  const at::Tensor weight = normal({40, 130}, at::kDouble, 2);
  const at::Tensor x = inputs_seen(500, 130), hessian = x.t().mm(x);
  for (const Quantization& how :
       std::vector<Quantization>{{.type = Type::int4, .group = 64, .zero_point = true},
                                 {.type = Type::int4, .group = 0},
                                 {.type = Type::int8}}) {
    const auto error = [&](const QuantizedMatrix& matrix) {
      return product_error(weight, dequantize(matrix, at::kDouble), hessian);
    };
    EXPECT_LT(error(gptq(weight, hessian, how)), 0.75 * error(quantize(weight, how)));
  }
  const at::Tensor rounded = dequantize(quantize(weight, {.group = 32}), at::kDouble);
  expect_near(at::scalar_tensor(product_error(weight, rounded, hessian), at::kDouble),
              (x.mm(rounded.t()) - x.mm(weight.t())).square().sum(), 1e-10);
}

TEST(Gptq, RoundsToTheNearestWhatWasNeverSeen) {
  const at::Tensor weight = normal({4, 64}, at::kFloat, 2);
  const Quantization how{.type = Type::int4, .group = 32, .zero_point = true};
  const at::Tensor expected = dequantize(quantize(weight, how), at::kFloat);
  EXPECT_TRUE(dequantize(gptq(weight, at::zeros({64, 64}), how), at::kFloat).equal(expected));
  at::Tensor x = inputs_seen(100, 64);
  x.narrow(1, 0, 32).zero_();
  const at::Tensor found = dequantize(gptq(weight, x.t().mm(x), how), at::kFloat);
  EXPECT_TRUE(found.narrow(1, 0, 32).equal(expected.narrow(1, 0, 32)));
  EXPECT_FALSE(found.narrow(1, 32, 32).equal(expected.narrow(1, 32, 32)));
  EXPECT_THROW(gptq(weight, at::full({64, 64}, NAN), how), Error);
}

TEST(Awq, ItsFactorsChangeProductsLeast) {
  const std::vector<at::Tensor> weights{normal({24, 64}, at::kDouble, 2),
                                        normal({9, 64}, at::kDouble, 3)};
  at::Tensor x = normal({300, 64}, at::kDouble, 4);
  x.select(1, 5).mul_(40);
  x.select(1, 50).mul_(15);
  const Quantization how{.type = Type::int4, .group = 32, .zero_point = true};
  InputStatistics inputs(64);
  inputs.add(x.narrow(0, 0, 100));
  inputs.add(x.narrow(0, 100, 200));
  EXPECT_EQ(inputs.rows, 300);
  expect_near(inputs.hessian, x.t().mm(x), 1e-6);
  expect_near(inputs.magnitudes, x.abs().sum(0), 1e-6);
  const auto error = [&](const at::Tensor& factors) {
    double sum = 0;
    for (const at::Tensor& weight : weights) {
      const at::Tensor rounded = dequantize(quantize(weight * factors, how), at::kDouble);
      sum += (x / factors).mm(rounded.t()).sub(x.mm(weight.t())).square().sum().item<double>();
    }
    return sum;
  };
  const at::Tensor factors = awq_factors(weights, inputs, how);
  EXPECT_LT(error(factors), 0.5 * error(at::ones({64}, at::kDouble)));
  EXPECT_GT(factors[5].item<double>(), factors[50].item<double>());
  EXPECT_GT(factors[50].item<double>(), factors[0].item<double>());
  for (const double exponent : {0.1, 0.35, 0.6, 0.95}) {
    const at::Tensor raised = x.abs().mean(0).pow(exponent);
    EXPECT_LE(error(factors), error(raised / (raised.max() * raised.min()).sqrt()) * (1 + 1e-6));
  }
  EXPECT_TRUE(awq_factors(weights, InputStatistics(64), how).eq(1).all().item<bool>());
}

}  // namespace
}  // namespace colossal::ops
