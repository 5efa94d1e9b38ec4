#include "colossal/ops/product/quantized_product.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/ops/kernels/quantized_rows.h"
#include "colossal/ops/product/few_rows.h"
#include "tests/ops/kernel_variants.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

using Type = Quantization::Type;

// Groups that fill a row, do not, and are the row.
const std::vector<Quantization> kWays = {{.type = Type::int8, .group = 0},
                                         {.type = Type::int8, .group = 32},
                                         {.type = Type::int8, .group = 64},
                                         {.type = Type::int4, .group = 32},
                                         {.type = Type::int4, .group = 64, .zero_point = true},
                                         {.type = Type::int4, .group = 0, .zero_point = true},
                                         {.type = Type::fp8, .group = 0},
                                         {.type = Type::fp8, .group = 32}};

const kernels::CodeKernels& kernels_of(const kernels::QuantizedKernels& kernels, Type type) {
  return type == Type::int8 ? kernels.int8 : type == Type::int4 ? kernels.int4 : kernels.fp8;
}

std::shared_ptr<const QuantizedMatrix> quantized(int64_t outputs, int64_t inputs,
                                                 const Quantization& how, uint64_t seed) {
  return std::make_shared<const QuantizedMatrix>(
      quantize(normal({outputs, inputs}, at::kFloat, seed), how));
}

at::Tensor numbers(std::initializer_list<double> values) {
  return at::tensor(std::vector<double>(values), at::kDouble).view({1, -1}).to(at::kFloat);
}

std::vector<int> codes_of(const QuantizedMatrix& matrix) {
  std::vector<int> codes;
  for (int64_t i = 0; i < matrix.codes.numel(); ++i) {
    codes.push_back(matrix.codes.const_data_ptr<uint8_t>()[i]);
  }
  return codes;
}

TEST(QuantizedMatrix, OfInt8HasTheseBytes) {
  const QuantizedMatrix matrix = quantize(numbers({127, -127, 0.4, -0.6, 2.5}), {});
  EXPECT_EQ(matrix.scales.item<float>(), 1);
  std::vector<int> expected(32, 0);
  expected[0] = 127;
  expected[1] = 0x81;
  expected[3] = 0xFF;
  expected[4] = 2;  // a tie, to even
  EXPECT_EQ(codes_of(matrix), expected);
}

TEST(QuantizedMatrix, OfInt4HasTheseBytes) {
  at::Tensor row = at::zeros({1, 33});
  row[0][0] = -8;  // the furthest: code 0
  row[0][1] = 7;   // 15
  row[0][16] = 8;  // would be 16
  row[0][17] = 3;
  row[0][32] = -4;  // of the second group, whose scale is a half
  const QuantizedMatrix matrix = quantize(row, {.type = Type::int4, .group = 32});
  EXPECT_EQ(matrix.scales[0][0].item<float>(), 1);
  EXPECT_EQ(matrix.scales[0][1].item<float>(), 0.5);
  std::vector<int> expected(32, 0x88);
  expected[0] = 0xF0;
  expected[1] = 0xBF;
  for (int i = 16; i < 32; ++i) expected[i] = 0;
  const std::vector<int> codes = codes_of(matrix);
  EXPECT_EQ(codes, expected);
}

TEST(QuantizedMatrix, WithZeroPointsHasTheseBytes) {
  const QuantizedMatrix matrix =
      quantize(numbers({-4, 11, 0, 3.4}), {.type = Type::int4, .zero_point = true});
  EXPECT_EQ(matrix.scales.item<float>(), 1);
  EXPECT_EQ(matrix.zeros.item<int>(), 4);
  const std::vector<int> codes = codes_of(matrix);
  EXPECT_EQ((std::vector<int>{codes.begin(), codes.begin() + 4}), (std::vector<int>{0, 15, 4, 7}));
}

// E4M3 has a sign, four bits of exponent and three of fraction.
TEST(QuantizedMatrix, OfFp8HasTheseBytes) {
  const QuantizedMatrix matrix =
      quantize(numbers({448, -448, 1, 1.0625, 1.1875, 0.001953125, 0.0009}), {.type = Type::fp8});
  EXPECT_EQ(matrix.scales.item<float>(), 1);
  std::vector<int> codes = codes_of(matrix);
  codes.resize(7);
  // 1.0625 is between 1 and 1.125, 1.1875 between 1.125 and 1.25: to even. The least number is
  // 2^-9; half of it is nearer to 0.
  EXPECT_EQ(codes, (std::vector<int>{0x7E, 0xFE, 0x38, 0x38, 0x3A, 0x01, 0x00}));
}

TEST(QuantizedMatrix, OfFp8HasEveryNumberOfTheType) {
  const at::Tensor bits = at::arange(256, at::kInt).to(at::kByte);
  at::Tensor all = bits.view(at::kFloat8_e4m3fn).to(at::kFloat);
  all = all.index({all.isfinite()}).view({1, -1});
  ASSERT_EQ(all.numel(), 254);
  const QuantizedMatrix matrix = quantize(all, {.type = Type::fp8});
  EXPECT_TRUE(dequantize(matrix, at::kFloat).equal(all));
  EXPECT_EQ(std::get<0>(at::_unique(unpacked_codes(matrix))).numel(), 254);
}

TEST(QuantizedMatrix, TakesScalesOfEveryType) {
  for (const Quantization& how : kWays) {
    const at::Tensor weight = normal({3, 96}, at::kFloat, 6);
    GroupScales scales = choose_scales(weight, how);
    const at::Tensor expected = dequantize(quantize(weight, how, scales), at::kFloat);
    for (const at::ScalarType type : {at::kHalf, at::kFloat}) {
      scales.scales = scales.scales.to(type);
      const QuantizedMatrix matrix = quantize(weight, how, scales);
      EXPECT_EQ(matrix.scales.scalar_type(), type);
      EXPECT_TRUE(dequantize(matrix, at::kFloat).equal(expected));
    }
  }
  // The least number that fp16 has, and its least normal one.
  const at::Tensor scales = at::tensor({5.9604644775390625e-08F, 6.103515625e-05F}).to(at::kHalf);
  const QuantizedMatrix matrix =
      quantize(at::ones({2, 1}), {}, GroupScales{scales.view({2, 1}), {}});
  EXPECT_TRUE(dequantize(matrix, at::kFloat).equal(127 * scales.to(at::kFloat).view({2, 1})));
}

TEST(QuantizedMatrix, IsWithinHalfAStep) {
  for (const Quantization& how : kWays) {
    if (how.type == Type::fp8) continue;  // steps grow with numbers
    const at::Tensor weight = normal({7, 150}, at::kFloat, 3);
    const QuantizedMatrix matrix = quantize(weight, how);
    const at::Tensor error = (dequantize(matrix, at::kDouble) - weight.to(at::kDouble)).abs();
    const int64_t size = how.group == 0 ? 150 : how.group;
    for (int64_t group = 0; group < matrix.scales.size(1); ++group) {
      const int64_t begin = group * size, count = std::min(size, 150 - begin);
      const at::Tensor steps =
          error.narrow(1, begin, count) / matrix.scales.narrow(1, group, 1).to(at::kDouble).abs();
      // At the ends of the range the scale's own rounding, and the missing code 16, cost more.
      EXPECT_LE(steps.max().item<double>(), how.type == Type::int8 ? 0.75 : 1.05);
      EXPECT_LE(steps.mean().item<double>(), 0.3);
    }
  }
}

TEST(QuantizedMatrix, OfZerosIsZeros) {
  for (const Quantization& how : kWays) {
    const QuantizedMatrix matrix = quantize(at::zeros({3, 40}), how);
    EXPECT_TRUE(dequantize(matrix, at::kFloat).eq(0).all().item<bool>());
  }
}

TEST(QuantizedMatrix, OfATransposedWeightIsThatOfItsCopy) {
  const at::Tensor weight = normal({70, 5}, at::kBFloat16, 3);
  for (const Quantization& how : kWays) {
    EXPECT_TRUE(dequantize(quantize(weight.t(), how), at::kFloat)
                    .equal(dequantize(quantize(weight.t().contiguous(), how), at::kFloat)));
  }
}

TEST(QuantizedMatrix, HasRowsInAnyOrderAndRoundedToBfloat16) {
  for (const Quantization& how : kWays) {
    QuantizedMatrix matrix = quantize(normal({37, 75}, at::kFloat, 5), how);
    const at::Tensor all = dequantize(matrix, at::kFloat);
    EXPECT_TRUE(dequantize(matrix, at::kBFloat16).equal(all.to(at::kBFloat16)));
    const at::Tensor indices = at::tensor({36, 0, 5, 5}, at::kLong).view({2, 2});
    EXPECT_TRUE(dequantized_rows(matrix, indices).equal(all.index({indices})));
    matrix.type = at::kDouble;
    EXPECT_TRUE(dequantized_rows(matrix, indices).equal(all.index({indices}).to(at::kDouble)));
    EXPECT_THROW(dequantized_rows(matrix, at::tensor({37}, at::kLong)), Error);
  }
}

TEST(QuantizedMatrix, HasTheSameNumbersByEveryInstructionSet) {
  for (const Quantization& how : kWays) {
    const QuantizedMatrix matrix = quantize(normal({3, 96}, at::kFloat, 6), how);
    const at::Tensor expected = dequantize(matrix, at::kFloat);
    for (const InstructionSet set : kernels::kAllInstructionSets) {
      const kernels::QuantizedKernels* kernels = kernels::quantized_kernels(set);
      if (!kernels) continue;
      const kernels::CodeKernels& of_codes = kernels_of(*kernels, how.type);
      const at::Tensor row = at::empty({96}, at::kFloat), half = at::empty({96}, at::kBFloat16);
      of_codes.to_float32(kernel_weight(matrix), 2, row.mutable_data_ptr());
      of_codes.to_bfloat16(kernel_weight(matrix), 2, half.mutable_data_ptr());
      EXPECT_TRUE(row.equal(expected[2]));
      EXPECT_TRUE(half.equal(expected[2].to(at::kBFloat16)));
    }
  }
}

TEST(QuantizedMatrix, RefusesOddGroups) {
  for (const int64_t group : {-32, 1, 33}) {
    EXPECT_THROW(quantize(at::zeros({3, 40}), {.group = group}), ConfigError);
  }
}

at::Tensor exact_product(const at::Tensor& x, const QuantizedWeights& given) {
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < given.weights.size(); ++i) {
    const at::Tensor weight = dequantize(*given.weights[i], at::kDouble);
    at::Tensor y = at::matmul(x.to(at::kDouble), weight.t());
    if (!given.biases.empty()) y = y + given.biases[i].to(at::kDouble);
    parts.push_back(y);
  }
  return at::cat(parts, -1);
}

QuantizedWeights two_weights(int64_t inputs, const Quantization& how, at::ScalarType type) {
  return {{quantized(21, inputs, how, 1), quantized(6, inputs, how, 2)},
          {normal({21}, type, 3), normal({6}, type, 4)}};
}

TEST(QuantizedProduct, IsThatOfTheNumbersBehindTheCodes) {
  for (const Quantization& how : kWays) {
    for (const at::ScalarType type : all_types()) {
      for (const int64_t rows : {1, 2, 7, 40}) {
        const at::Tensor x = normal({rows, 1, 150}, type, 5);
        const QuantizedWeights given = two_weights(150, how, type);
        const at::Tensor y = quantized_linear(x, given);
        ASSERT_EQ(y.scalar_type(), type);
        expect_near(y, exact_product(x, given), tolerance_of(type));
      }
    }
  }
}

TEST(QuantizedProduct, EveryInstructionSetGivesIt) {
  int sets = 0;
  for (const InstructionSet set : kernels::kAllInstructionSets) {
    const kernels::QuantizedKernels* const found = kernels::quantized_kernels(set);
    if (!found) continue;
    ++sets;
    for (const Quantization& how : kWays) {
      const QuantizedMatrix matrix = *quantized(9, 160, how, 6);
      const at::Tensor x = normal({3, 160}, at::kDouble, 7), y = at::empty({3, 9}, at::kDouble);
      kernels_of(*found, how.type)
          .float64({.rows = 3,
                    .x = x.const_data_ptr<double>(),
                    .weight = kernel_weight(matrix),
                    .bias = nullptr,
                    .y = y.mutable_data_ptr<double>(),
                    .y_is_bfloat16 = false,
                    .y_stride = 9},
                   0, 9);
      expect_near(y, at::mm(x, dequantize(matrix, at::kDouble).t()), 1e-13);
    }
  }
  EXPECT_GE(sets, 1);
}

// Of int8 weights and int8 inputs.
TEST(QuantizedProduct, WithInt8InputsIsThatOfTheRoundedInputs) {
  for (const int64_t group : {0, 32, 64}) {
    const Quantization how{.group = group, .activations = Activations::int8};
    for (const at::ScalarType type : all_types()) {
      for (const int64_t rows : {1, 2, 7, 40}) {
        const at::Tensor x = normal({rows, 150}, type, 5);
        const QuantizedWeights given = two_weights(150, how, type);
        const at::Tensor step = x.to(at::kFloat).abs().amax(1, true) / 127;
        const at::Tensor rounded = (x.to(at::kFloat) / step).round() * step;
        // A tie may fall to either side.
        expect_near(quantized_linear(x, given), exact_product(rounded, given),
                    std::max(tolerance_of(type), 2e-4));
      }
    }
  }
  const QuantizedWeights given = two_weights(150, {.activations = Activations::int8}, at::kFloat);
  expect_near(quantized_linear(at::zeros({2, 150}), given), at::cat(given.biases).expand({2, 27}),
              1e-7);
}

// In tile registers, several rows give the bits of single rows.
TEST(QuantizedProduct, OfManyInt8RowsHasTheBitsOfEachRowAlone) {
  for (const int64_t inputs : {32, 160, 768, 1100}) {
    for (const int64_t group : {0, 64, 96, 128}) {
      const Quantization how{.group = group, .activations = Activations::int8};
      for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
        const QuantizedWeights given = {
            {quantized(21, inputs, how, 1), quantized(70, inputs, how, 2)},
            {normal({21}, type, 3), normal({70}, type, 4)}};
        const at::Tensor x = normal({275, inputs}, type, 5);
        std::vector<at::Tensor> alone;
        for (const at::Tensor& row : x.split(1)) alone.push_back(quantized_linear(row, given));
        const at::Tensor expected = at::cat(alone);
        for (const int64_t rows : {2, 4, 5, 16, 17, 32, 40, 255, 256, 275}) {
          EXPECT_TRUE(
              quantized_linear(x.narrow(0, 0, rows), given).equal(expected.narrow(0, 0, rows)))
              << inputs << " inputs, groups of " << group << ", " << rows << " rows";
        }
      }
    }
  }
}

TEST(QuantizedProduct, EveryInstructionSetRoundsToTheSameInt8) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    for (const int64_t inputs : {7, 150, 512}) {
      at::Tensor x = normal({5, inputs}, type, 5);
      x.select(0, 3).zero_();
      x.select(0, 4).mul_(1e-20);
      const int64_t depth = (inputs + 31) / 32 * 32, groups = (depth + 63) / 64;
      const auto round = [&](const kernels::QuantizedKernels& found) {
        const at::Tensor codes = at::full({5, depth}, 99, at::kChar);
        const at::Tensor scales = at::empty({5}), sums = at::empty({5, groups}, at::kInt);
        found.to_int8({.inputs = inputs,
                       .x = x.const_data_ptr(),
                       .x_is_bfloat16 = type == at::kBFloat16,
                       .depth = depth,
                       .group_size = 64,
                       .codes = codes.mutable_data_ptr<int8_t>(),
                       .scales = scales.mutable_data_ptr<float>(),
                       .sums = sums.mutable_data_ptr<int32_t>()},
                      0, 5);
        return std::vector<at::Tensor>{codes, scales, sums};
      };
      const auto expected = round(*kernels::quantized_kernels(InstructionSet::baseline));
      const at::Tensor wide = x.to(at::kFloat);
      const at::Tensor most = wide.abs().amax(1, true);
      EXPECT_TRUE(expected[1].equal(most.squeeze(1) / 127));
      // A tie may fall to either side of the codes of a division.
      const at::Tensor steps = (wide / most.clamp_min(1e-30) * 127);
      EXPECT_LE((expected[0].narrow(1, 0, inputs) - steps).abs().max().item<double>(), 0.5001);
      EXPECT_EQ(expected[0].narrow(1, inputs, depth - inputs).count_nonzero().item<int64_t>(), 0);
      for (const InstructionSet set : kernels::kAllInstructionSets) {
        const kernels::QuantizedKernels* const found = kernels::quantized_kernels(set);
        if (!found) continue;
        const auto of_set = round(*found);
        for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(of_set[i].equal(expected[i])) << name_of(set);
      }
    }
  }
}

TEST(QuantizedProduct, ARowHasTheSameBitsAloneAndAmongOthers) {
  const BatchInvariantProducts any_number_is_few;
  std::vector<Quantization> ways = kWays;
  ways.push_back({.group = 32, .activations = Activations::int8});
  for (const Quantization& how : ways) {
    for (const at::ScalarType type : all_types()) {
      const at::Tensor x = normal({50, 150}, type, 5);
      const QuantizedWeights given = two_weights(150, how, type);
      const at::Tensor together = quantized_linear(x, given);
      for (const int64_t some : {1, 2, 3, 7}) {
        EXPECT_TRUE(
            quantized_linear(x.narrow(0, 4, some), given).equal(together.narrow(0, 4, some)));
      }
    }
  }
}

TEST(QuantizedProduct, AnyNumberOfThreadsGivesTheSameBits) {
  const int threads = at::get_num_threads();
  std::vector<Quantization> ways = kWays;
  ways.push_back({.group = 32, .activations = Activations::int8});
  for (const Quantization& how : ways) {
    const QuantizedWeights given{{quantized(501, 320, how, 1)}, {}};
    const at::Tensor x = normal({2, 320}, at::kBFloat16, 5);
    at::set_num_threads(1);
    const at::Tensor of_one = quantized_linear(x, given);
    at::set_num_threads(3);
    EXPECT_TRUE(quantized_linear(x, given).equal(of_one));
  }
  at::set_num_threads(threads);
}

TEST(QuantizedProduct, ItsGradientIsThatOfTheNumbersBehindTheCodes) {
  for (const Quantization& how : kWays) {
    const QuantizedWeights given = two_weights(150, how, at::kDouble);
    const at::Tensor x = normal({2, 3, 150}, at::kDouble, 5).requires_grad_();
    const at::Tensor weights = normal({2, 3, 27}, at::kDouble, 8);
    (quantized_linear(x, given) * weights).sum().backward();
    const at::Tensor found = x.grad();
    x.mutable_grad() = at::Tensor();
    (exact_product(x, given) * weights).sum().backward();
    expect_near(found, x.grad(), 1e-12);
  }
}

}  // namespace
}  // namespace colossal::ops
