#include "colossal/ops/product/tile_product.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "colossal/base/cpu_features.h"
#include "colossal/base/error.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

struct ProductShape {
  int64_t m, n, k;
};

at::Tensor bf16(at::IntArrayRef sizes, uint64_t seed) {
  return normal(sizes, at::kBFloat16, seed);
}

// A part of a wider matrix, so that rows are not one after the other.
at::Tensor wide(int64_t rows, int64_t columns, uint64_t seed) {
  return bf16({rows, columns + 40}, seed).narrow(1, 8, columns);
}

void expect_product(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor expected = a.to(at::kDouble).mm(b.to(at::kDouble));
  const at::Tensor to = wide(a.size(0), b.size(1), 9), before = to.to(at::kDouble);
  ASSERT_TRUE(supports_tile_product(a, b, to));
  tile_product(a, b, to, /*add=*/true);
  EXPECT_LE((to.to(at::kDouble) - before - expected).norm().item<double>(),
            4e-3 * (before.norm() + expected.norm()).item<double>());
  tile_product(a, b, to, /*add=*/false);
  EXPECT_LE((to.to(at::kDouble) - expected).norm().item<double>(),
            3e-3 * expected.norm().item<double>());
}

class TileProduct : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_amx_bf16()) GTEST_SKIP() << "this CPU has no tiles of bf16 (amx-bf16)";
  }
};

TEST_F(TileProduct, IsTheProductInEachForm) {
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    for (const ProductShape& s : std::vector<ProductShape>{{1, 32, 32},
                                                           {16, 64, 96},
                                                           {17, 160, 32},
                                                           {33, 96, 64},
                                                           {100, 288, 224},
                                                           {300, 32, 512}}) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, {} threads", s.m, s.n, s.k, threads));
      expect_product(wide(s.m, s.k, 1), wide(s.n, s.k, 2).t());
      expect_product(wide(s.m, s.k, 1), wide(s.k, s.n, 2));
      expect_product(wide(s.m, s.n, 1).t(), wide(s.m, s.k, 2));
    }
  }
  at::set_num_threads(1);
}

TEST_F(TileProduct, ARowHasTheSameBitsInAnyNumberOfRows) {
  const at::Tensor a = bf16({100, 96}, 1), b = bf16({64, 96}, 2);
  const at::Tensor all = at::empty({100, 64}, a.options()), one = at::empty({1, 64}, a.options());
  tile_product(a, b.t(), all, false);
  for (const int64_t row : {0, 31, 99}) {
    tile_product(a.narrow(0, row, 1), b.t(), one, false);
    EXPECT_TRUE(one[0].equal(all[row])) << row;
  }
}

// Others configure tiles too: oneDNN's products before and after are what they were.
TEST_F(TileProduct, LeavesTheTilesOfOthersAlone) {
  const at::Tensor a = bf16({256, 256}, 1), b = bf16({256, 256}, 2);
  const at::Tensor before = a.mm(b), to = at::empty({32, 256}, a.options());
  tile_product(a.narrow(0, 0, 32), b, to, false);
  EXPECT_TRUE(a.mm(b).equal(before));
}

TEST_F(TileProduct, LeavesWholeBlocksOfChangingRowsToLibTorch) {
  for (const int64_t rows : {7, 128, 300, 2500}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = bf16({rows, 96}, 1), w = bf16({64, 96}, 2), y = bf16({rows, 64}, 3);
    const at::Tensor bias = bf16({64}, 4);
    const auto expect = [](const at::Tensor& found, const at::Tensor& expected) {
      EXPECT_LE((found.to(at::kDouble) - expected).norm().item<double>(),
                6e-3 * expected.norm().item<double>());
    };
    const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
    const at::Tensor to = at::empty({rows, 64}, x.options());
    dynamic_rows_product(x, w.t(), to, bias, /*add=*/false);
    expect(to, wide(x).mm(wide(w).t()) + wide(bias));
    const at::Tensor sum = x.clone();
    dynamic_rows_product(y, w, sum, /*bias=*/{}, /*add=*/true);
    expect(sum, wide(x) + wide(y).mm(wide(w)));
    const at::Tensor gradient = at::empty({64, 96}, x.options());
    dynamic_rows_product(y.t(), x, gradient, /*bias=*/{}, /*add=*/false);
    expect(gradient, wide(y).t().mm(wide(x)));
    // Once, however many parts the product has.
    const at::Tensor large = bf16({96}, 5).mul(30);
    dynamic_rows_product(y.t(), x, gradient, large, /*add=*/false);
    expect(gradient, wide(y).t().mm(wide(x)) + wide(large));
    EXPECT_THROW(dynamic_rows_product(y, w, sum, large, /*add=*/true), InternalError);
  }
}

TEST_F(TileProduct, IsNotForOtherShapesOrTypes) {
  const auto fits = [](const at::Tensor& a, const at::Tensor& b) {
    return is_faster_in_tiles(a, b, at::empty({a.size(0), b.size(1)}, a.options()));
  };
  EXPECT_TRUE(fits(bf16({4, 64}, 1), bf16({64, 32}, 2)));
  EXPECT_FALSE(fits(bf16({4, 64}, 1), bf16({64, 40}, 2)));
  EXPECT_FALSE(fits(bf16({4, 40}, 1), bf16({40, 32}, 2)));
  EXPECT_FALSE(fits(bf16({4, 64}, 1).to(at::kFloat), bf16({64, 32}, 2).to(at::kFloat)));
  EXPECT_FALSE(fits(bf16({129, 64}, 1), bf16({64, 32}, 2)));
  EXPECT_TRUE(supports_tile_product(bf16({129, 64}, 1), bf16({64, 32}, 2), bf16({129, 32}, 3)));
  EXPECT_FALSE(fits(bf16({0, 64}, 1), bf16({64, 32}, 2)));
}

}  // namespace
}  // namespace colossal::ops
