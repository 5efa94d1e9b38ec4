#include "colossal/ops/norm/sum_rows.h"

#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

TEST(SumRows, RoundsOnce) {
  for (const at::ScalarType type : all_types()) {
    for (const int64_t count : {0, 1, 1003}) {
      for (const int64_t columns : {0, 1, 33, 9001}) {
        const at::Tensor rows = normal({count, columns + 5}, type, 1).narrow(1, 3, columns);
        const at::Tensor expected = rows.to(at::kDouble).sum(0);
        const at::Tensor sums = sum_rows(rows);
        EXPECT_EQ(sums.scalar_type(), type);
        ASSERT_EQ(sums.sizes(), expected.sizes());
        if (sums.numel() == 0) continue;
        // As sums of bf16 in bf16 would not be.
        const double tolerance = type == at::kBFloat16 ? 0x1p-8 : tolerance_of(type);
        const at::Tensor allowed = expected.abs().mul(tolerance).add(1e-4);
        EXPECT_TRUE(sums.to(at::kDouble).sub(expected).abs().le(allowed).all().item<bool>())
            << type << " " << count << " x " << columns;
      }
    }
  }
}

TEST(SumRows, RunsOnMeta) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor rows = at::ones({5, 7}, type);
    expect_same_shape(sum_rows(rows.to(at::kMeta)), sum_rows(rows));
  }
}

TEST(SumRows, TakesAnyOrderOfElements) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor columns = at::arange(35, at::kDouble).to(type).view({5, 7});
    EXPECT_TRUE(sum_rows(columns.t()).equal(columns.sum(1)));
    EXPECT_TRUE(sum_rows(at::ones({}, type).expand({5, 7})).equal(at::full({7}, 5, type)));
  }
  EXPECT_THROW(sum_rows(at::ones({5})), InternalError);
}

}  // namespace
}  // namespace colossal::ops
