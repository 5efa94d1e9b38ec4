#include "colossal/layout/heads.h"

#include <gtest/gtest.h>

#include <vector>

namespace colossal {
namespace {

TEST(Heads, AsManyKeysAsQueriesAreCutAlike) {
  EXPECT_EQ(key_value_replicas(6, 6, 4), 1);
  for (int part = 0; part < 4; ++part) {
    const nn::HeadShare share = share_heads(6, 6, 4, part);
    EXPECT_EQ(share.queries, share.keys);
    EXPECT_EQ(share.queries.size(), part < 2 ? 2 : 1);
  }
}

TEST(Heads, KeysThatDivideAreNotReplicated) {
  EXPECT_EQ(key_value_replicas(8, 4, 2), 1);
  EXPECT_EQ(share_heads(8, 4, 2, 1).keys, (Range{2, 4}));
  EXPECT_EQ(share_heads(8, 4, 2, 1).queries, (Range{4, 8}));
}

TEST(Heads, FewerKeysThanRanksAreReplicated) {
  EXPECT_EQ(key_value_replicas(6, 2, 4), 2);
  const std::vector<Range> queries{{0, 2}, {2, 3}, {3, 5}, {5, 6}};
  for (int part = 0; part < 4; ++part) {
    EXPECT_EQ(share_heads(6, 2, 4, part).queries, queries[part]);
    EXPECT_EQ(share_heads(6, 2, 4, part).keys, (Range{part / 2, part / 2 + 1}));
  }
  EXPECT_EQ(key_value_replicas(6, 2, 3), 3);
}

// Each query is with one rank, and that rank has its keys.
TEST(Heads, EveryQueryIsSomewhereWithItsKeys) {
  for (const auto& [heads, kv_heads] : {std::pair{12, 12}, {12, 4}, {12, 6}, {12, 1}, {14, 2}}) {
    for (int parts = 1; parts <= heads; ++parts) {
      int64_t next = 0;
      for (int part = 0; part < parts; ++part) {
        const nn::HeadShare share = share_heads(heads, kv_heads, parts, part);
        ASSERT_EQ(share.queries.begin, next);
        next = share.queries.end;
        ASSERT_FALSE(share.queries.empty());
        for (int64_t query = share.queries.begin; query < share.queries.end; ++query) {
          const int64_t key = query * kv_heads / heads;
          ASSERT_TRUE(key >= share.keys.begin && key < share.keys.end);
        }
      }
      ASSERT_EQ(next, heads);
    }
  }
}

}  // namespace
}  // namespace colossal
