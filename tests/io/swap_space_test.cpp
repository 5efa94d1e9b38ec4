#include "colossal/io/swap_space.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(SwapSpace, LendsWhatWasGivenBack) {
  const colossal::test::TemporaryDirectory folder;
  SwapSpace space(folder.path());
  const SwapSpace::Region a = space.take(100), b = space.take(3 * kMiB), c = space.take(1);
  EXPECT_EQ(a.file, c.file);
  EXPECT_EQ(a.bytes, kMiB);
  EXPECT_EQ(b.offset, kMiB);
  EXPECT_EQ(c.offset, 4 * kMiB);
  const int64_t bytes = space.file_bytes();
  space.give(b);
  EXPECT_EQ(space.take(2 * kMiB).offset, kMiB);
  space.give(a);
  EXPECT_EQ(space.take(kMiB).offset, 0);
  EXPECT_EQ(space.file_bytes(), bytes);
}

TEST(SwapSpace, JoinsNeighboursAndGrows) {
  const colossal::test::TemporaryDirectory folder;
  SwapSpace space(folder.path());
  std::vector<SwapSpace::Region> regions;
  for (int i = 0; i < 256; ++i) regions.push_back(space.take(kMiB));
  EXPECT_EQ(space.file_bytes(), 256 * kMiB);
  const SwapSpace::Region large = space.take(300 * kMiB);  // more than a file has
  EXPECT_NE(large.file, regions[0].file);
  EXPECT_EQ(space.file_bytes(), 556 * kMiB);
  for (int i = 0; i < 256; i += 2) space.give(regions[i]);
  for (int i = 255; i > 0; i -= 2) space.give(regions[i]);
  EXPECT_EQ(space.take(256 * kMiB).file, regions[0].file);  // whole again
  EXPECT_EQ(space.file_bytes(), 556 * kMiB);
}

}  // namespace
}  // namespace colossal::io
