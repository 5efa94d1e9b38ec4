#include "colossal/layout/zigzag.h"

#include <gmock/gmock.h>

#include <numeric>

namespace colossal {
namespace {

using testing::ElementsAre;

TEST(Zigzag, APartIsAnEarlyPieceAndTheLateOneThatMirrorsIt) {
  EXPECT_THAT(zigzag_runs(12, 3, 0), ElementsAre(Range{0, 2}, Range{10, 12}));
  EXPECT_THAT(zigzag_runs(12, 3, 1), ElementsAre(Range{2, 4}, Range{8, 10}));
  EXPECT_THAT(zigzag_runs(12, 3, 2), ElementsAre(Range{4, 8}));  // its pieces touch
  EXPECT_THAT(zigzag_runs(10, 3, 0), ElementsAre(Range{0, 2}, Range{9, 10}));
}

TEST(Zigzag, ShortSequencesLeaveOutEmptyPieces) {
  EXPECT_THAT(zigzag_runs(4, 3, 0), ElementsAre(Range{0, 1}));
  EXPECT_THAT(zigzag_runs(4, 3, 2), ElementsAre(Range{2, 4}));
  EXPECT_THAT(zigzag_runs(2, 3, 2), ElementsAre());
}

TEST(Zigzag, PartsCoverEverythingOnceAndShareTheWork) {
  for (int64_t total : {0, 1, 7, 50, 64, 997}) {
    for (int parts = 1; parts <= 9; ++parts) {
      std::vector<int64_t> times(total);
      std::vector<int64_t> pairs(parts);  // of a query and a key that it sees
      for (int part = 0; part < parts; ++part) {
        for (const Range& run : zigzag_runs(total, parts, part)) {
          EXPECT_FALSE(run.empty());
          for (int64_t i = run.begin; i < run.end; ++i) {
            ++times[i];
            pairs[part] += i + 1;
          }
        }
      }
      EXPECT_THAT(times, testing::Each(1));
      const auto [least, most] = std::ranges::minmax(pairs);
      EXPECT_LE(most - least, total % (2 * parts) == 0 ? 0 : 2 * total) << total << " " << parts;
    }
  }
}

}  // namespace
}  // namespace colossal
