#include "colossal/ops/dropout.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "colossal/base/error.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

const RandomKey kDropoutKey = random_key(1, 2, "blocks.0.dropout");
const std::vector<int64_t> kSampleIds = {12, 5, (int64_t{1} << 33) + 5};

at::Tensor positions(int64_t count) {
  return at::arange(count, at::kLong);
}

TEST(Dropout, DropsTheGivenShareAndScalesTheRest) {
  const at::Tensor x = at::ones({3, 50, 400}, at::kFloat);
  const at::Tensor y = dropout(x, 0.1, kDropoutKey, kSampleIds, positions(50));
  const double dropped = (y == 0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.1, 5 * std::sqrt(0.09 / x.numel()));
  EXPECT_TRUE(y.masked_select(y != 0).eq(at::full({}, 1 / 0.9, at::kFloat)).all().item<bool>());
}

TEST(Dropout, ASliceComputedAloneIsThatSliceOfTheWhole) {
  const at::Tensor x = normal({3, 21, 300}, at::kFloat, 1);
  const at::Tensor whole = dropout(x, 0.3, kDropoutKey, kSampleIds, positions(21));
  const std::vector<int64_t> others = {kSampleIds[2], kSampleIds[0]};
  const at::Tensor rows = at::tensor({2, 0}, at::kLong);
  EXPECT_TRUE(dropout(x.index_select(0, rows), 0.3, kDropoutKey, others, positions(21))
                  .equal(whole.index_select(0, rows)));
  const at::Tensor columns = at::tensor({20, 3, 11}, at::kLong);
  EXPECT_TRUE(dropout(x.index_select(1, columns), 0.3, kDropoutKey, kSampleIds, columns)
                  .equal(whole.index_select(1, columns)));
  EXPECT_TRUE(dropout(x.narrow(2, 77, 150), 0.3, kDropoutKey, kSampleIds, positions(21), 77)
                  .equal(whole.narrow(2, 77, 150)));
}

TEST(Dropout, EverySamplePositionChannelAndKeyDrawsItsOwn) {
  const at::Tensor ones = at::ones({3, 64, 64}, at::kFloat);
  const at::Tensor mask = dropout(ones, 0.5, kDropoutKey, kSampleIds, positions(64)) / 2 - 0.5;
  const at::Tensor other =
      dropout(ones, 0.5, random_key(1, 3, "blocks.0.dropout"), kSampleIds, positions(64)) / 2 - 0.5;
  // 4 * the mean product is a correlation, 0 for independent masks.
  const auto correlation = [](const at::Tensor& a, const at::Tensor& b) {
    return 4 * (a * b).mean().item<double>();
  };
  EXPECT_NEAR(correlation(mask, other), 0, 0.05);
  EXPECT_NEAR(correlation(mask[0], mask[1]), 0, 0.08);
  EXPECT_NEAR(correlation(mask[1], mask[2]), 0, 0.08);  // ids that share their low 32 bits
  EXPECT_NEAR(correlation(mask[0], mask[0].t()), 0, 0.08);
}

TEST(Dropout, TheBackwardPassDrawsTheSameMask) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x = normal({3, 7, 5, 26}, type, 2).requires_grad_();
    const at::Tensor y = dropout(x, 0.4, kDropoutKey, kSampleIds, positions(7));
    const at::Tensor g = normal({3, 7, 5, 26}, type, 3);
    const at::Tensor gradient = torch::autograd::grad({y}, {x}, {g})[0];
    const at::Tensor mask =
        dropout(at::ones_like(x).detach(), 0.4, kDropoutKey, kSampleIds, positions(7)) != 0;
    expect_near(y.detach(), x.detach() * mask / 0.6, tolerance_of(type));
    expect_near(gradient, g * mask / 0.6, tolerance_of(type));
    EXPECT_TRUE(gradient.ne(0).equal(mask));
  }
}

TEST(Dropout, WithProbabilityZeroReturnsItsInput) {
  const at::Tensor x = normal({3, 2, 4}, at::kFloat, 1);
  EXPECT_TRUE(dropout(x, 0, kDropoutKey, kSampleIds, positions(2)).is_same(x));
}

TEST(Dropout, WithProbabilityOneDropsAll) {
  const at::Tensor x = normal({3, 2, 4}, at::kFloat, 1);
  EXPECT_TRUE(dropout(x, 1, kDropoutKey, kSampleIds, positions(2)).eq(0).all().item<bool>());
}

TEST(Dropout, TakesTransposedInputsAndEmptyBatches) {
  const at::Tensor x = normal({7, 3, 12}, at::kFloat, 1).transpose(0, 1);
  EXPECT_TRUE(dropout(x, 0.3, kDropoutKey, kSampleIds, positions(7))
                  .equal(dropout(x.contiguous(), 0.3, kDropoutKey, kSampleIds, positions(7))));
  const at::Tensor none = at::empty({0, 7, 12}, at::kFloat);
  EXPECT_EQ(dropout(none, 0.3, kDropoutKey, {}, positions(7)).sizes(), none.sizes());
}

TEST(Dropout, RefusesCoordinatesThatDoNotFit) {
  const at::Tensor x = normal({3, 2, 4}, at::kFloat, 1);
  EXPECT_THROW(dropout(x, 0.3, kDropoutKey, kSampleIds, positions(3)), InternalError);
  EXPECT_THROW(dropout(x.narrow(0, 0, 2), 0.3, kDropoutKey, kSampleIds, positions(2)),
               InternalError);
  EXPECT_THROW(dropout(x, 1.5, kDropoutKey, kSampleIds, positions(2)), InternalError);
}

TEST(Dropout, RunsOnMeta) {
  const auto meta = at::TensorOptions(at::kMeta);
  const at::Tensor x = at::empty({3, 7, 12}, meta.dtype(at::kBFloat16)).requires_grad_();
  const at::Tensor y =
      dropout(x, 0.3, kDropoutKey, kSampleIds, at::empty({7}, meta.dtype(at::kLong)));
  const at::Tensor real =
      dropout(normal({3, 7, 12}, at::kBFloat16, 1), 0.3, kDropoutKey, kSampleIds, positions(7));
  expect_same_shape(y, real);
  expect_same_shape(torch::autograd::grad({y}, {x}, {at::empty_like(y)})[0], real);
}

}  // namespace
}  // namespace colossal::ops
