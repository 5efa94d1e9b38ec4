#include "colossal/layout/heads.h"

#include <numeric>

#include "colossal/base/error.h"

namespace colossal {

int key_value_replicas(int64_t query_heads, int64_t key_value_heads, int ranks) {
  COLOSSAL_CHECK(key_value_heads > 0 && query_heads % key_value_heads == 0,
                 "{} query heads, {} heads of keys and values", query_heads, key_value_heads);
  // With grouped queries, the heads of keys are divided among gcd(heads, ranks) sets of ranks; all
  // ranks of a set hold the same heads. Without groups the heads are divided like queries, evenly
  // or not.
  if (query_heads == key_value_heads) return 1;
  return ranks / static_cast<int>(std::gcd(key_value_heads, static_cast<int64_t>(ranks)));
}

HeadSharding shard_heads(const RankGrid& grid, std::string_view axis, int64_t query_heads,
                         int64_t key_value_heads, int64_t head_size) {
  const int index = grid.axis(axis);
  const int replicas = key_value_replicas(query_heads, key_value_heads, grid.size(index));
  return {
      .grid = grid.split(axis, {{fmt::format("{}.kv", axis), grid.size(index) / replicas},
                                {fmt::format("{}.query", axis), replicas}}),
      .queries = {.segments = {{query_heads * head_size, head_size}},
                  .shards = {{index}, {index + 1}}},
      .keys_values = {.segments = {{key_value_heads * head_size, head_size}}, .shards = {{index}}}};
}

nn::LocalHeads local_heads_of(int64_t query_heads, int64_t key_value_heads, int ranks, int rank) {
  const HeadSharding sharding =
      shard_heads(RankGrid({{"heads", ranks}}), "heads", query_heads, key_value_heads);
  const auto range_of = [&](const Layout::Dim& dim) {
    const Layout layout(sharding.grid, {dim});
    const Runs& runs = layout.held(rank, 0);
    return runs.empty() ? Range{} : runs.front();
  };
  return {.queries = range_of(sharding.queries), .keys = range_of(sharding.keys_values)};
}

}  // namespace colossal
