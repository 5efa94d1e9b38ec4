#include "colossal/serve/page_pool.h"

#include <gtest/gtest.h>

#include "colossal/base/error.h"

namespace colossal::serve {
namespace {

const std::vector<int32_t> kFirst = {1, 2, 3}, kSecond = {4, 5, 6};

TEST(PagePool, GivesEachPageOnce) {
  PagePool pool(3);
  std::vector<int64_t> pages;
  while (pool.available() > 0) pages.push_back(pool.take());
  std::ranges::sort(pages);
  EXPECT_EQ(pages, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(pool.in_use(), 3);
  EXPECT_THROW(pool.take(), InternalError);
  pool.release(1);
  EXPECT_EQ(pool.take(), 1);
}

TEST(PagePool, FindsWhatWasKeptAndOnlyThat) {
  PagePool pool(4);
  const int64_t first = pool.take(), second = pool.take();
  const auto prefix = pool.keep(first, 0, "salt", kFirst);
  const auto both = pool.keep(second, prefix, "salt", kSecond);
  EXPECT_EQ(pool.find(0, "salt", kFirst)->page, first);
  EXPECT_EQ(pool.find(0, "salt", kFirst)->prefix, prefix);
  EXPECT_EQ(pool.find(prefix, "salt", kSecond)->page, second);
  EXPECT_EQ(pool.find(prefix, "salt", kSecond)->prefix, both);
  EXPECT_FALSE(pool.find(0, "other", kFirst));
  EXPECT_FALSE(pool.find(0, "salt", kSecond));
  EXPECT_FALSE(pool.find(both, "salt", kSecond));
}

TEST(PagePool, APageHasUsersUntilTheLastReleasesIt) {
  PagePool pool(1);
  const int64_t page = pool.take();
  pool.keep(page, 0, "", kFirst);
  pool.share(page);
  pool.release(page);
  EXPECT_EQ(pool.available(), 0);
  pool.release(page);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_THROW(pool.release(page), InternalError);
  // The page stays cached until it is needed.
  pool.share(pool.find(0, "", kFirst)->page);
  pool.release(page);
  EXPECT_EQ(pool.take(), page);
  EXPECT_FALSE(pool.find(0, "", kFirst));
}

TEST(PagePool, ForgetsWhatWasReleasedFirst) {
  PagePool pool(2);
  const int64_t a = pool.take(), b = pool.take();
  pool.keep(a, 0, "", kFirst);
  pool.keep(b, 0, "", kSecond);
  pool.release(b);
  pool.release(a);
  EXPECT_EQ(pool.take(), b);
  EXPECT_TRUE(pool.find(0, "", kFirst));
  EXPECT_FALSE(pool.find(0, "", kSecond));
}

TEST(PagePool, ASecondPageOfTheSameTokensIsNotKept) {
  PagePool pool(2);
  const int64_t a = pool.take(), b = pool.take();
  const auto prefix = pool.keep(a, 0, "", kFirst);
  EXPECT_EQ(pool.keep(b, 0, "", kFirst), prefix);
  EXPECT_EQ(pool.find(0, "", kFirst)->page, a);
  pool.release(a);
  pool.release(b);
  EXPECT_EQ(pool.available(), 2);
}

}  // namespace
}  // namespace colossal::serve
