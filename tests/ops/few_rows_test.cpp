#include "colossal/ops/product/few_rows.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <vector>

#include "colossal/ops/kernels/few_rows.h"
#include "colossal/ops/product/fused_linear.h"
#include "tests/ops/kernel_variants.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

struct RowsSize {
  int64_t rows, depth, outputs;
};

// Depths and outputs that fill no vector and no tile.
const std::vector<RowsSize> kRowsSizes = {{0, 5, 7},   {1, 1, 1},    {1, 33, 9},   {2, 64, 4},
                                          {7, 100, 6}, {13, 31, 18}, {32, 257, 11}};

struct RowsWeights {
  std::vector<at::Tensor> weights, biases;
};

// The second one as GPT-2's lie: inputs first.
RowsWeights weights_of_rows(const RowsSize& size, at::ScalarType type) {
  return {{normal({size.outputs, size.depth}, type, 2), normal({size.depth, 3}, type, 3).t()},
          {normal({size.outputs}, type, 4), normal({3}, type, 5)}};
}

at::Tensor rows_product_of(const at::Tensor& x, const RowsWeights& given) {
  at::Tensor y = at::empty({x.size(0), given.weights[0].size(0) + 3}, x.options());
  few_rows_product(y, x, given.weights, given.biases);
  return y;
}

at::Tensor exact_rows(const at::Tensor& x, const RowsWeights& given) {
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < given.weights.size(); ++i) {
    parts.push_back(at::addmm(given.biases[i].to(at::kDouble), x.to(at::kDouble),
                              given.weights[i].to(at::kDouble).t()));
  }
  return at::cat(parts, 1);
}

TEST(FewRows, OfAnyTypeAndSizeAreExactToIt) {
  for (const at::ScalarType type : all_types()) {
    for (const RowsSize& size : kRowsSizes) {
      const at::Tensor x = normal({size.rows, size.depth}, type, 1);
      const RowsWeights given = weights_of_rows(size, type);
      ASSERT_TRUE(are_few_rows(x, given.weights));
      expect_near(rows_product_of(x, given), exact_rows(x, given), tolerance_of(type));
    }
  }
}

// In fp64 a lane that is left out, or taken twice, shows.
template <typename Real>
void expect_exact(kernels::MultiplyRows multiply, const RowsSize& size, double tolerance) {
  const auto type = c10::CppTypeToScalarType<Real>::value;
  const at::Tensor x = normal({size.rows, size.depth}, type, 1);
  const at::Tensor weight = normal({size.outputs, size.depth}, type, 2);
  at::Tensor y = at::empty({size.rows, size.outputs}, type);
  multiply({.rows = size.rows,
            .depth = size.depth,
            .x = x.const_data_ptr(),
            .x_stride = size.depth,
            .weight = weight.const_data_ptr(),
            .weight_stride = size.depth,
            .bias = nullptr,
            .y = y.mutable_data_ptr(),
            .y_stride = size.outputs},
           0, size.outputs);
  expect_near(y, at::mm(x.to(at::kDouble), weight.to(at::kDouble).t()), tolerance);
}

TEST(FewRows, EveryInstructionSetSumsAllOfTheDepth) {
  int sets = 0;
  for (const InstructionSet set : kernels::kAllInstructionSets) {
    const kernels::RowsKernels* const found = kernels::rows_kernels(set);
    if (!found) continue;
    ++sets;
    for (const RowsSize& size : kRowsSizes) {
      expect_exact<double>(found->float64, size, 1e-13);
      expect_exact<float>(found->float32, size, 2e-6);
      expect_exact<at::BFloat16>(found->bfloat16, size, 1e-2);
    }
  }
  EXPECT_GE(sets, 1);
}

TEST(FewRows, ARowHasTheSameBitsAloneAndAmongOthers) {
  const BatchInvariantProducts any_number_is_few;
  for (const at::ScalarType type : all_types()) {
    const RowsSize size{131, 75, 21};
    const at::Tensor x = normal({size.rows, size.depth}, type, 1);
    const RowsWeights given = weights_of_rows(size, type);
    ASSERT_TRUE(are_few_rows(x, given.weights));
    const at::Tensor together = rows_product_of(x, given);
    for (int64_t row = 0; row < size.rows; ++row) {
      EXPECT_TRUE(rows_product_of(x.narrow(0, row, 1), given).equal(together.narrow(0, row, 1)));
    }
    for (const int64_t some : {2, 3, 7, 32, 50}) {
      EXPECT_TRUE(rows_product_of(x.narrow(0, 1, some), given).equal(together.narrow(0, 1, some)));
    }
  }
}

TEST(FewRows, AnyNumberOfThreadsGivesTheSameBits) {
  const int threads = at::get_num_threads();
  for (const at::ScalarType type : all_types()) {
    const RowsSize size{5, 300, 1001};
    const at::Tensor x = normal({size.rows, size.depth}, type, 1);
    const RowsWeights given = weights_of_rows(size, type);
    at::set_num_threads(1);
    const at::Tensor of_one = rows_product_of(x, given);
    at::set_num_threads(3);
    EXPECT_TRUE(rows_product_of(x, given).equal(of_one));
  }
  at::set_num_threads(threads);
}

TEST(FewRows, ManyAreFewOnlyWhereBatchesMustNotMatter) {
  const at::Tensor x = normal({33, 8}, at::kFloat, 1);
  const std::vector<at::Tensor> weights{normal({4, 8}, at::kFloat, 2)};
  EXPECT_FALSE(are_few_rows(x, weights));
  EXPECT_TRUE(are_few_rows(x.narrow(0, 0, 32), weights));
  {
    const BatchInvariantProducts scope;
    { const BatchInvariantProducts inner; }
    EXPECT_TRUE(are_few_rows(x, weights));
  }
  EXPECT_FALSE(are_few_rows(x, weights));
  EXPECT_FALSE(
      are_few_rows(x.narrow(0, 0, 1), {normal({4, 16}, at::kFloat, 2).slice(1, 0, 16, 2)}));
  EXPECT_FALSE(are_few_rows(x.narrow(0, 0, 1).to(at::kDouble), weights));
}

TEST(FewRows, OfWeightsWithInputsFirstAreExactAndTheSameInEveryBatch) {
  const BatchInvariantProducts any_number_is_few;
  for (const at::ScalarType type : all_types()) {
    for (const int64_t outputs : {1, 9, 64, 300}) {
      const at::Tensor x = normal({37, 75}, type, 1), bias = normal({outputs}, type, 3);
      const std::vector<at::Tensor> weights{normal({75, outputs}, type, 2).t()};
      ASSERT_TRUE(are_few_rows(x, weights));
      at::Tensor together = at::empty({37, outputs}, type);
      few_rows_product(together, x, weights, {bias});
      expect_near(
          together,
          at::addmm(bias.to(at::kDouble), x.to(at::kDouble), weights[0].to(at::kDouble).t()),
          tolerance_of(type));
      for (const int64_t some : {1, 2, 5}) {
        at::Tensor alone = at::empty({some, outputs}, type);
        few_rows_product(alone, x.narrow(0, 3, some), weights, {bias});
        EXPECT_TRUE(alone.equal(together.narrow(0, 3, some)));
      }
    }
  }
}

// What a layer calls is this kernel, with gradients asked for or not.
TEST(FewRows, AreWhatALinearLayerMultipliesBy) {
  for (const at::ScalarType type : all_types()) {
    const RowsWeights given = weights_of_rows({2, 75, 21}, type);
    const at::Tensor x = normal({2, 1, 75}, type, 1);
    const at::Tensor expected = rows_product_of(x.view({2, 75}), given).view({2, 1, 24});
    EXPECT_TRUE(fused_linear(x, {given.weights, given.biases}).equal(expected));
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(fused_linear(x, {given.weights, given.biases}).equal(expected));
  }
}

}  // namespace
}  // namespace colossal::ops
