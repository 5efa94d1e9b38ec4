#include "colossal/layout/partition.h"

#include <gmock/gmock.h>

namespace colossal {
namespace {

using testing::ElementsAre;

TEST(Partition, FirstPartsAreLarger) {
  EXPECT_THAT(Partition(10, 3).counts(), ElementsAre(4, 3, 3));
  EXPECT_THAT(Partition(10, 4).counts(), ElementsAre(3, 3, 2, 2));
}

TEST(Partition, LastPartsMayBeEmpty) {
  EXPECT_THAT(Partition(2, 4).counts(), ElementsAre(1, 1, 0, 0));
}

TEST(Partition, CutsAtWholeUnits) {
  EXPECT_THAT(Partition(100, 3, 16).counts(), ElementsAre(48, 32, 20));
  EXPECT_THAT(Partition(15, 2, 16).counts(), ElementsAre(15, 0));
  EXPECT_THAT(Partition(0, 2, 16).counts(), ElementsAre(0, 0));
}

TEST(Partition, PartsCoverEverythingOnceAndOwnersAgree) {
  for (int64_t total : {0, 1, 7, 64, 997}) {
    for (int parts = 1; parts <= 9; ++parts) {
      for (int64_t unit : {1, 8, 16}) {
        const Partition partition(total, parts, unit);
        const std::vector<int64_t> counts = partition.counts();
        int64_t covered = 0;
        for (int part = 0; part < parts; ++part) {
          const Range range = partition.range(part);
          EXPECT_EQ(range.begin, covered);
          EXPECT_EQ(range.size(), counts[part]);
          covered = range.end;
          for (int64_t element = range.begin; element < range.end; ++element) {
            EXPECT_EQ(partition.owner(element), part);
          }
        }
        EXPECT_EQ(covered, total);
      }
    }
  }
}

TEST(Range, Intersection) {
  EXPECT_EQ(intersect({2, 7}, {5, 9}), (Range{5, 7}));
  EXPECT_TRUE(intersect({2, 4}, {4, 9}).empty());
  EXPECT_TRUE(intersect({2, 4}, {7, 9}).empty());
}

}  // namespace
}  // namespace colossal
