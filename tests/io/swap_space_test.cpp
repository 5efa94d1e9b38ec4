#include "colossal/io/swap_space.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

TEST(SwapSpace, LendsWhatWasGivenBack) {
  const colossal::test::TemporaryDirectory folder;
  SwapSpace space(folder.path());
  const SwapSpace::Region a = space.take(100), b = space.take(3 * kMebibyte), c = space.take(1);
  EXPECT_EQ(a.file, c.file);
  EXPECT_EQ(a.bytes, kMebibyte);
  EXPECT_EQ(b.offset, kMebibyte);
  EXPECT_EQ(c.offset, 4 * kMebibyte);
  const int64_t bytes = space.file_bytes();
  space.give(b);
  EXPECT_EQ(space.take(2 * kMebibyte).offset, kMebibyte);
  space.give(a);
  EXPECT_EQ(space.take(kMebibyte).offset, 0);
  EXPECT_EQ(space.file_bytes(), bytes);
}

TEST(SwapSpace, JoinsNeighboursAndGrows) {
  const colossal::test::TemporaryDirectory folder;
  SwapSpace space(folder.path());
  std::vector<SwapSpace::Region> regions;
  for (int i = 0; i < 256; ++i) regions.push_back(space.take(kMebibyte));
  EXPECT_EQ(space.file_bytes(), 256 * kMebibyte);
  const SwapSpace::Region large = space.take(300 * kMebibyte);  // more than fits in a file
  EXPECT_NE(large.file, regions[0].file);
  EXPECT_EQ(space.file_bytes(), 556 * kMebibyte);
  for (int i = 0; i < 256; i += 2) space.give(regions[i]);
  for (int i = 255; i > 0; i -= 2) space.give(regions[i]);
  EXPECT_EQ(space.take(256 * kMebibyte).file, regions[0].file);  // one free region again
  EXPECT_EQ(space.file_bytes(), 556 * kMebibyte);
}

}  // namespace
}  // namespace colossal::io
