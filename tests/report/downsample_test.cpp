#include "colossal/report/downsample.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace colossal::report {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr size_t kMillion = 1'000'000;

std::vector<double> ascending(size_t count) {
  std::vector<double> x(count);
  std::iota(x.begin(), x.end(), 0);
  return x;
}

TEST(MinMaxIndices, FewPointsAllStay) {
  const std::vector<double> x = ascending(4), y = {3, NAN, 1, 2};
  EXPECT_THAT(min_max_indices(x, y, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(min_max_indices({}, {}, 1), ElementsAre());
}

TEST(MinMaxIndices, FirstLowestHighestLastOfEachColumn) {
  const std::vector<double> x = ascending(10), y = {5, 6, 9, 1, 5, 7, 7, 7, 7, 7};
  EXPECT_THAT(min_max_indices(x, y, 2), ElementsAre(0, 2, 3, 4, 5, 9));
}

TEST(MinMaxIndices, SpikesAmongAMillionPointsStay) {
  const std::vector<double> x = ascending(kMillion);
  std::vector<double> y(kMillion, 1);
  y[123'457] = 50;
  y[777'777] = -50;
  const std::vector<size_t> kept = min_max_indices(x, y, 1000);
  EXPECT_LE(kept.size(), 4000u);
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  EXPECT_THAT(kept, Contains(123'457));
  EXPECT_THAT(kept, Contains(777'777));
  EXPECT_EQ(kept.front(), 0u);
  EXPECT_EQ(kept.back(), kMillion - 1);
}

TEST(MinMaxIndices, GapsOfAColumnAndMoreStay) {
  const std::vector<double> x = ascending(1000);
  std::vector<double> y(1000, 1);
  std::fill(y.begin() + 200, y.begin() + 400, NAN);
  const std::vector<size_t> kept = min_max_indices(x, y, 10);
  EXPECT_EQ(std::ranges::count_if(kept, [&](size_t i) { return std::isnan(y[i]); }), 2);
}

// Columns without any point, as for steps that a run skipped.
TEST(MinMaxIndices, UnevenX) {
  std::vector<double> x = ascending(100), y = ascending(100);
  x.back() = 1e9;
  const std::vector<size_t> kept = min_max_indices(x, y, 10);
  EXPECT_THAT(kept, ElementsAre(0, 98, 99));
}

}  // namespace
}  // namespace colossal::report
