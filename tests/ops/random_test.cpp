#include "colossal/ops/random.h"

#include <gtest/gtest.h>

#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

TEST(FillNormal, AnySlicesMakeTheWhole) {
  const RandomKey stream = parameter_stream(7, "blocks.0.weight");
  for (const at::ScalarType type : all_types()) {
    at::Tensor whole = at::empty({100'003}, type);
    fill_normal(whole, 0, stream, 0, 0.02);
    for (const int64_t slice : {1'000, 33'335}) {
      at::Tensor parts = at::empty_like(whole);
      for (int64_t begin = 0; begin < whole.numel(); begin += slice) {
        const int64_t size = std::min(slice, whole.numel() - begin);
        fill_normal(parts.narrow(0, begin, size), begin, stream, 0, 0.02);
      }
      EXPECT_TRUE(parts.equal(whole));
    }
  }
}

TEST(FillNormal, NarrowTypesHoldTheWideOnesRounded) {
  const RandomKey stream = parameter_stream(7, "a");
  at::Tensor wide = at::empty({5'000}, at::kDouble);
  fill_normal(wide, 3, stream, 1, 2);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::Tensor narrow = at::empty({5'000}, type);
    fill_normal(narrow, 3, stream, 1, 2);
    EXPECT_TRUE(narrow.equal(wide.to(at::kFloat).to(type)));
  }
}

TEST(FillNormal, HasMeanAndDeviationAndNoMemory) {
  at::Tensor values = at::empty({1'000'000}, at::kDouble);
  fill_normal(values, 0, parameter_stream(1, "a"), 3, 0.5);
  EXPECT_NEAR(values.mean().item<double>(), 3, 5 * 0.5e-3);
  EXPECT_NEAR(values.std().item<double>(), 0.5, 5 * 0.5e-3);
  const at::Tensor centred = values - 3;
  for (const int64_t lag : {1, 16, 32, 64}) {
    const int64_t size = values.numel() - lag;
    const double correlation =
        (centred.narrow(0, 0, size) * centred.narrow(0, lag, size)).mean().item<double>() / 0.25;
    EXPECT_NEAR(correlation, 0, 5e-3) << "lag " << lag;
  }
}

TEST(FillNormal, StreamsAreIndependent) {
  at::Tensor a = at::empty({100'000}, at::kDouble), b = at::empty_like(a);
  fill_normal(a, 0, parameter_stream(1, "a"), 0, 1);
  fill_normal(b, 0, parameter_stream(1, "b"), 0, 1);
  EXPECT_NEAR((a * b).mean().item<double>(), 0, 5 / std::sqrt(1e5));
}

TEST(FillNormal, LeavesMetaTensorsAlone) {
  const at::Tensor meta = at::empty({1'000}, at::TensorOptions(at::kMeta).dtype(at::kFloat));
  fill_normal(meta, 0, parameter_stream(1, "a"), 0, 1);
  EXPECT_EQ(meta.numel(), 1'000);
}

}  // namespace
}  // namespace colossal::ops
