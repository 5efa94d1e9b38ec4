#include "colossal/ops/bf16_product.h"

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <cmath>

#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

struct Size {
  int64_t depth, rows, columns;
};

TEST(TransposedProduct, IsExactToFp32ForAnySize) {
  for (const Size& s : {Size{1, 1, 1}, {2, 64, 64}, {33, 70, 65}, {129, 200, 130}, {64, 17, 768}}) {
    const at::Tensor a = normal({s.depth, s.rows}, at::kBFloat16, 1);
    const at::Tensor b = normal({s.depth, s.columns}, at::kBFloat16, 2);
    const at::Tensor expected = at::mm(a.to(at::kDouble).t(), b.to(at::kDouble));
    const at::Tensor sum = at::full({s.rows, s.columns}, NAN, at::kFloat);
    transposed_product(a, b, sum, false);
    expect_near(sum, expected, 1e-6);
    transposed_product(a, b, sum, true);
    expect_near(sum, 2 * expected, 1e-6);
  }
}

// Once: as the exact product is, scaled and rounded.
TEST(RoundedTransposedProduct, IsRoundedOnce) {
  for (const Size& s : {Size{1, 1, 1}, {33, 70, 65}, {129, 200, 130}, {64, 4'100, 24}}) {
    const at::Tensor a = normal({s.depth, s.rows}, at::kBFloat16, 1);
    const at::Tensor b = normal({s.depth, s.columns}, at::kBFloat16, 2);
    const at::Tensor exact = at::mm(a.to(at::kDouble).t(), b.to(at::kDouble)).mul_(0.37);
    const at::Tensor result = rounded_transposed_product(a, b, at::full({}, 0.37));
    EXPECT_EQ(result.scalar_type(), at::kBFloat16);
    // Half a unit in the last place of 8 bits, and what the sum in fp32 adds to it.
    const at::Tensor error = (result.to(at::kDouble) - exact).abs();
    EXPECT_TRUE(error.le(exact.abs() * std::pow(2.0, -8) + 1e-5).all().item<bool>());
    const at::Tensor dry = rounded_transposed_product(a.to(at::kMeta), b.to(at::kMeta),
                                                      at::full({}, 0.37).to(at::kMeta));
    expect_same_shape(dry, result);
  }
}

TEST(RoundedTransposedProduct, GivesTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor a = normal({65, 1'000}, at::kBFloat16, 1);
  const at::Tensor b = normal({65, 96}, at::kBFloat16, 2);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = rounded_transposed_product(a, b, at::full({}, 0.5));
  at::set_num_threads(3);
  const at::Tensor three = rounded_transposed_product(a, b, at::full({}, 0.5));
  at::set_num_threads(threads);
  EXPECT_TRUE(three.equal(one));
}

TEST(TransposedProduct, GivesTheSameBitsForAnyNumberOfThreads) {
  const at::Tensor a = normal({65, 1'000}, at::kBFloat16, 1);
  const at::Tensor b = normal({65, 96}, at::kBFloat16, 2);
  const at::Tensor one = at::empty({1'000, 96}), three = at::empty({1'000, 96});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  transposed_product(a, b, one, false);
  at::set_num_threads(3);
  transposed_product(a, b, three, false);
  at::set_num_threads(threads);
  EXPECT_TRUE(three.equal(one));
}

}  // namespace
}  // namespace colossal::ops
