// Which experts are copied, by the rows that ranks route to them.
#include "colossal/parallel/expert/expert_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colossal::test {
namespace {

using parallel::choose_copies;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(ExpertCopies, EvenRowsNeedNone) {
  EXPECT_THAT(choose_copies({{5, 5, 5, 5}, {5, 5, 5, 5}}, Partition(4, 2), {.most = 4}), IsEmpty());
}

// Rank 0 has 38 rows, rank 1 has 4. With a copy of expert 0 they have 20 and 22.
TEST(ExpertCopies, TheHottestExpertOfTheBusiestRankIsCopied) {
  const parallel::RowsByRank rows{{18, 1, 1, 1}, {18, 1, 1, 1}};
  EXPECT_THAT(choose_copies(rows, Partition(4, 2), {.most = 1}), ElementsAre(0));
  EXPECT_THAT(choose_copies(rows, Partition(4, 2), {.most = 0}), IsEmpty());
}

// It takes 38 - 22 = 16 rows from the busiest rank.
TEST(ExpertCopies, ACopyMustTakeMoreRowsThanItCosts) {
  const parallel::RowsByRank rows{{18, 1, 1, 1}, {18, 1, 1, 1}};
  EXPECT_THAT(choose_copies(rows, Partition(4, 2), {.most = 4, .rows = 15}), ElementsAre(0));
  EXPECT_THAT(choose_copies(rows, Partition(4, 2), {.most = 4, .rows = 16}), IsEmpty());
}

// One copy alone would take nothing from the busiest, since two ranks are equally busy.
TEST(ExpertCopies, TwoEquallyBusyRanksShareOutBoth) {
  const parallel::RowsByRank rows{{8, 8, 0}, {8, 8, 0}, {8, 8, 0}};
  EXPECT_THAT(choose_copies(rows, Partition(3, 3), {.most = 3}), ElementsAre(0, 1));
  EXPECT_THAT(choose_copies(rows, Partition(3, 3), {.most = 1}), IsEmpty());
}

}  // namespace
}  // namespace colossal::test
