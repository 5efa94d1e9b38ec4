#include "colossal/ops/attention/attention_tiles.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace colossal::ops {
namespace {

std::vector<int64_t> all_positions(const std::vector<Range>& runs) {
  std::vector<int64_t> positions;
  for (const Range& run : runs) {
    for (int64_t position = run.begin; position < run.end; ++position)
      positions.push_back(position);
  }
  return positions;
}

using Pairs = std::set<std::pair<int64_t, int64_t>>;  // rows of queries, rows of keys

Pairs seen_by_rule(const std::vector<Range>& queries, const std::vector<Range>& keys, bool causal) {
  const auto of_queries = all_positions(queries), of_keys = all_positions(keys);
  Pairs seen;
  for (size_t i = 0; i < of_queries.size(); ++i) {
    for (size_t j = 0; j < of_keys.size(); ++j) {
      if (!causal || of_keys[j] <= of_queries[i]) seen.emplace(i, j);
    }
  }
  return seen;
}

// Also expects that no pair is in two tiles.
Pairs seen_in_tiles(const std::vector<AttentionTile>& tiles) {
  Pairs seen;
  for (const AttentionTile& tile : tiles) {
    EXPECT_FALSE(tile.queries.empty() || tile.keys.empty());
    for (int64_t i = tile.queries.begin; i < tile.queries.end; ++i) {
      for (int64_t j = tile.keys.begin; j < tile.keys.end; ++j) {
        // The last query and the last key are at one position.
        if (tile.on_diagonal && tile.keys.end - j < tile.queries.end - i) continue;
        EXPECT_TRUE(seen.emplace(i, j).second) << i << " " << j;
      }
    }
  }
  return seen;
}

TEST(AttentionTiles, ContainWhatTheRuleLetsSee) {
  const std::vector<std::vector<Range>> runs = {
      {{0, 5}},          {{3, 9}},         {{0, 9}},         {{4, 5}}, {{8, 12}},
      {{0, 3}, {9, 12}}, {{3, 6}, {6, 9}}, {{2, 4}, {7, 8}}, {}};
  for (const auto& queries : runs) {
    for (const auto& keys : runs) {
      for (const bool causal : {false, true}) {
        AttentionRule rule;
        rule.causal = causal;
        const auto tiles = attention_tiles(queries, keys, rule);
        EXPECT_EQ(seen_in_tiles(tiles), seen_by_rule(queries, keys, causal));
        EXPECT_LE(tiles.size(), 2 * queries.size() * keys.size());
      }
    }
  }
}

TEST(AttentionTiles, OfAWholeSequenceAreOne) {
  EXPECT_EQ(attention_tiles({{0, 7}}, {{0, 7}}, {}),
            std::vector<AttentionTile>({{{0, 7}, {0, 7}, true}}));
  EXPECT_EQ(attention_tiles({{6, 7}}, {{0, 7}}, {}),
            std::vector<AttentionTile>({{{0, 1}, {0, 7}, false}}));
}

}  // namespace
}  // namespace colossal::ops
