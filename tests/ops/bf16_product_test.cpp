#include "colossal/ops/product/bf16_product.h"

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

struct Size {
  int64_t rows, depth, columns;
};

// Smaller than a block and larger, odd, and deeper than what is multiplied at once.
std::vector<Size> sizes() {
  return {{1, 1, 1},     {64, 2, 64},    {70, 33, 65},  {200, 129, 130},
          {17, 64, 768}, {600, 48, 300}, {3, 8'193, 5}, {70, 10'240, 66}};
}

struct Order {
  bool a_transposed, b_transposed;
};

std::vector<Order> orders() {
  return {{false, false}, {false, true}, {true, false}, {true, true}};
}

// The same matrix, dense along its columns.
at::Tensor reordered(const at::Tensor& x, bool transposed) {
  return transposed ? x.t().contiguous().t() : x;
}

struct Factors {
  Factors(const Size& size, const Order& order)
      : a(reordered(normal({size.rows, size.depth}, at::kBFloat16, 1), order.a_transposed)),
        b(reordered(normal({size.depth, size.columns}, at::kBFloat16, 2), order.b_transposed)),
        exact(at::mm(a.to(at::kDouble), b.to(at::kDouble))) {}

  at::Tensor a, b, exact;
};

// Within half a unit in the last place of 8 bits, and what the sum in fp32 adds to it.
void expect_rounded_once(const at::Tensor& result, const at::Tensor& exact, int64_t depth) {
  ASSERT_EQ(result.scalar_type(), at::kBFloat16);
  const at::Tensor error = (result.to(at::kDouble) - exact).abs();
  const double of_sum = 1e-6 * static_cast<double>(depth);
  EXPECT_TRUE(error.le(exact.abs() * std::pow(2.0, -8) + of_sum).all().item<bool>());
}

TEST(SummedProduct, IsExactToFp32ForAnySizeAndOrder) {
  for (const Size& size : sizes()) {
    for (const Order& order : orders()) {
      const Factors factors(size, order);
      const at::Tensor sum = at::full({size.rows, size.columns}, NAN, at::kFloat);
      summed_product(factors.a, factors.b, sum, false);
      expect_near(sum, factors.exact, 2e-6);
      summed_product(factors.a, factors.b, sum, true);
      expect_near(sum, 2 * factors.exact, 2e-6);
    }
  }
}

TEST(RoundedProduct, IsRoundedOnceForAnySizeAndOrder) {
  for (const Size& size : sizes()) {
    for (const Order& order : orders()) {
      const Factors factors(size, order);
      const at::Tensor bias = normal({size.columns}, at::kBFloat16, 3);
      // Columns of a wider result.
      const at::Tensor whole = at::full({size.rows, size.columns + 2}, 7, at::kBFloat16);
      const at::Tensor result = whole.narrow(1, 1, size.columns);
      rounded_product(factors.a, factors.b, result);
      expect_rounded_once(result, factors.exact, size.depth);
      rounded_product(factors.a, factors.b, result, bias, at::full({}, 0.375));
      expect_rounded_once(result, 0.375 * factors.exact + bias.to(at::kDouble), size.depth);
      EXPECT_TRUE(whole.select(1, 0).eq(7).all().item<bool>());
      EXPECT_TRUE(whole.select(1, size.columns + 1).eq(7).all().item<bool>());
    }
  }
}

// A matrix whose rows or columns are not dense is one too, and so is one without elements.
TEST(RoundedProduct, TakesAnyStrides) {
  const at::Tensor a = normal({9, 2}, at::kBFloat16, 1).select(1, 0).unsqueeze(0).expand({5, 9});
  const at::Tensor b = normal({9, 14}, at::kBFloat16, 2).slice(1, 0, 14, 2);
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  const at::Tensor result = at::empty({5, 7}, at::kBFloat16);
  rounded_product(a, b, result);
  expect_rounded_once(result, exact, 9);
  const at::Tensor bias = normal({7}, at::kBFloat16, 3);
  rounded_product(a.narrow(1, 0, 0), b.narrow(0, 0, 0), result, bias);
  EXPECT_TRUE(result.equal(bias.expand({5, 7})));
  rounded_product(a.narrow(0, 0, 0), b, result.narrow(0, 0, 0), bias);
}

TEST(RoundedProduct, GivesTheSameBitsForAnyNumberOfThreads) {
  const Size size{1'000, 65, 300};
  for (const Order& order : orders()) {
    const Factors factors(size, order);
    const auto product = [&](int threads) {
      const at::Tensor rounded = at::empty({size.rows, size.columns}, at::kBFloat16);
      const at::Tensor sum = at::empty({size.rows, size.columns}, at::kFloat);
      const int before = at::get_num_threads();
      at::set_num_threads(threads);
      rounded_product(factors.a, factors.b, rounded);
      summed_product(factors.a, factors.b, sum, false);
      at::set_num_threads(before);
      return std::pair(rounded, sum);
    };
    const auto [rounded, sum] = product(1);
    const auto [rounded_by_three, sum_by_three] = product(3);
    EXPECT_TRUE(rounded_by_three.equal(rounded));
    EXPECT_TRUE(sum_by_three.equal(sum));
  }
}

}  // namespace
}  // namespace colossal::ops
