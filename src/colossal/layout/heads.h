// Shards attention heads over the ranks of tensor parallelism. With grouped-query attention (J.
// Ainslie et al. 2023, "GQA") there may be fewer key/value heads (K/V heads) than ranks; several
// ranks then hold the same K/V heads.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/layout/layout.h"
#include "colossal/nn/builder.h"

namespace colossal {

// Returns the number of consecutive ranks that hold the same K/V heads, if heads are sharded over
// `ranks` ranks. If the numbers of query heads and K/V heads are equal, the result is 1: both are
// sharded in the same way, and ranks may hold different numbers of heads. Otherwise K/V heads are
// cut into gcd(key_value_heads, ranks) equal parts, and the result is the number of ranks per part.
// Throws InternalError if query_heads is not a multiple of key_value_heads.
int key_value_replicas(int64_t query_heads, int64_t key_value_heads, int ranks);

// The sharding of heads over an axis of a grid. The axis is split into two factors, whose second
// one has key_value_replicas() ranks. K/V heads are sharded over the first factor; the ranks along
// the second factor hold the same K/V heads. Query heads are sharded over the first factor, then
// over the second. So each rank holds the K/V heads that its query heads use.
struct HeadSharding {
  RankGrid grid;            // the grid with the axis, such as "tp", split into "tp.kv", "tp.query"
  Layout::Dim queries;      // a dim of query_heads * head_size channels
  Layout::Dim keys_values;  // the dim of keys, or of values: key_value_heads * head_size channels
};

// Returns the sharding of heads over `axis` of `grid`. head_size: channels per head; if it is 1,
// the dims of the result have one index per head. Throws InternalError if query_heads is not a
// multiple of key_value_heads.
HeadSharding shard_heads(const RankGrid& grid, std::string_view axis, int64_t query_heads,
                         int64_t key_value_heads, int64_t head_size = 1);

// Returns the query heads and the K/V heads that rank `rank` holds if heads are sharded over
// `ranks` ranks. If there are at least as many query heads as ranks, each rank holds at least one
// query head.
nn::LocalHeads local_heads_of(int64_t query_heads, int64_t key_value_heads, int ranks, int rank);

}  // namespace colossal
