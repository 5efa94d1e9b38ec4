#include "colossal/ops/product/product.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

struct Size {
  int64_t rows, depth, columns;
};

// Few rows, for which LibTorch multiplies, and many; columns that fill no vector.
const std::vector<Size> kSizes = {
    {0, 5, 7}, {1, 33, 9}, {127, 64, 3}, {128, 64, 65}, {300, 31, 130}};

TEST(Product, OfAnyTypeAndSizeIsExactToIt) {
  for (const at::ScalarType type : all_types()) {
    for (const auto& [rows, depth, columns] : kSizes) {
      const at::Tensor a = normal({rows, depth}, type, 1),
                       b = normal({columns, depth}, type, 2).t();
      const at::Tensor bias = normal({columns}, type, 3);
      const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
      const at::Tensor plain = product(a, b), biased = product(a, b, bias);
      ASSERT_EQ(plain.scalar_type(), type);
      expect_near(plain, exact, tolerance_of(type));
      expect_near(biased, exact + bias.to(at::kDouble), tolerance_of(type));
      // The same among the columns of a wider result.
      const at::Tensor whole = at::full({rows, columns + 3}, 7, plain.options());
      product_out(whole.narrow(1, 2, columns), a, b, bias);
      EXPECT_TRUE(whole.narrow(1, 2, columns).equal(biased));
      EXPECT_TRUE(whole.narrow(1, 0, 2).eq(7).all().item<bool>());
      EXPECT_TRUE(whole.select(1, columns + 2).eq(7).all().item<bool>());
    }
  }
}

TEST(Product, OnMetaHasTheSameShape) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor a = normal({200, 48}, type, 1), b = normal({48, 70}, type, 2);
    const at::Tensor bias = normal({70}, type, 3);
    expect_same_shape(product(a.to(at::kMeta), b.to(at::kMeta), bias.to(at::kMeta)),
                      product(a, b, bias));
  }
}

}  // namespace
}  // namespace colossal::ops
