#include "colossal/layout/segments.h"

#include <gmock/gmock.h>

namespace colossal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Segments, EachIsCutForItself) {
  const std::vector<Segment> qkv{{6, 2}, {4, 2}, {4, 2}};
  EXPECT_THAT(indices_of_part(qkv, 2, 0), ElementsAre(Range{0, 4}, Range{6, 8}, Range{10, 12}));
  EXPECT_THAT(indices_of_part(qkv, 2, 1), ElementsAre(Range{4, 6}, Range{8, 10}, Range{12, 14}));
}

TEST(Segments, RunsThatTouchAreOne) {
  const std::vector<Segment> two{{5}, {5}};
  EXPECT_THAT(indices_of_part(two, 1, 0), ElementsAre(Range{0, 10}));
}

TEST(Segments, APartMayHaveNothing) {
  const std::vector<Segment> small{{4, 2}};
  EXPECT_THAT(indices_of_part(small, 3, 2), IsEmpty());
}

}  // namespace
}  // namespace colossal
