#include "colossal/base/nearest.h"

#include <gtest/gtest.h>

namespace colossal {
namespace {

TEST(EditDistance, CountsEachKindOfSlipOnce) {
  EXPECT_EQ(edit_distance("steps", "steps"), 0u);
  EXPECT_EQ(edit_distance("steps", "stps"), 1u);    // deletion
  EXPECT_EQ(edit_distance("steps", "stepps"), 1u);  // insertion
  EXPECT_EQ(edit_distance("steps", "stePs"), 1u);   // substitution
  EXPECT_EQ(edit_distance("steps", "setps"), 1u);   // transposition
  EXPECT_EQ(edit_distance("", "steps"), 5u);
  EXPECT_EQ(edit_distance("steps", ""), 5u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Nearest, TakesTheClosestAndOfEqualsTheFirst) {
  EXPECT_EQ(nearest("gloop", {"auto", "gloo", "nccl"}), "gloo");
  EXPECT_EQ(nearest("ab", {"ac", "ad"}), "ac");
  EXPECT_EQ(nearest("anything", {}), "");
}

}  // namespace
}  // namespace colossal
