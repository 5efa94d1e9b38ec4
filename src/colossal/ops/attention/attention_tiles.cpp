#include "colossal/ops/attention/attention_tiles.h"

#include <algorithm>

namespace colossal::ops {
namespace {

// Adds the tiles of one run of queries and one run of keys, whose first rows are query_row and
// key_row.
void add_tiles(const Range& queries, int64_t query_row, const Range& keys, int64_t key_row,
               bool causal, std::vector<AttentionTile>& tiles) {
  const auto add = [&](Range of_queries, Range of_keys, bool on_diagonal) {
    if (of_queries.size() <= 0 || of_keys.size() <= 0) return;
    const int64_t to_query_row = query_row - queries.begin, to_key_row = key_row - keys.begin;
    tiles.push_back({{of_queries.begin + to_query_row, of_queries.end + to_query_row},
                     {of_keys.begin + to_key_row, of_keys.end + to_key_row},
                     on_diagonal});
  };
  if (!causal) return add(queries, keys, false);
  // Keys after the last query are seen by none. Queries from the last key on see all.
  const Range seen{keys.begin, std::min(keys.end, queries.end)};
  const int64_t first_that_sees_all = std::clamp(seen.end - 1, queries.begin, queries.end);
  if (first_that_sees_all == queries.begin) return add(queries, seen, false);
  add({std::max(queries.begin, keys.begin), std::min(seen.end, queries.end)}, seen, true);
  add({seen.end, queries.end}, seen, false);
}

}  // namespace

std::vector<AttentionTile> attention_tiles(const std::vector<Range>& queries,
                                           const std::vector<Range>& keys,
                                           const AttentionRule& rule) {
  std::vector<AttentionTile> tiles;
  int64_t query_row = 0;
  for (const Range& of_queries : queries) {
    int64_t key_row = 0;
    for (const Range& of_keys : keys) {
      add_tiles(of_queries, query_row, of_keys, key_row, rule.causal, tiles);
      key_row += of_keys.size();
    }
    query_row += of_queries.size();
  }
  return tiles;
}

}  // namespace colossal::ops
