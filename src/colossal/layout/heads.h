// Sharding of attention heads over ranks. With grouped-query attention (J. Ainslie et al. 2023,
// "GQA") there may be fewer key/value heads (K/V heads) than ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/layout/layout.h"
#include "colossal/nn/builder.h"

namespace colossal {

// Returns how many consecutive ranks along an axis of `ranks` ranks hold the same K/V heads. With
// as many K/V heads as query heads the result is 1: both are sharded in the same way, and ranks may
// hold different numbers of heads. With fewer K/V heads, these are cut into gcd(key_value_heads,
// ranks) equal parts of whole heads, and the result is the number of ranks per part. Throws
// InternalError if query_heads is not a multiple of key_value_heads.
int key_value_replicas(int64_t query_heads, int64_t key_value_heads, int ranks);

// How heads are sharded along an axis that is split into two factors. K/V heads are sharded over
// the first factor and replicated over the second. Query heads are sharded over the first factor,
// then over the second. So each rank holds the K/V heads that its query heads use.
struct HeadSharding {
  RankGrid grid;            // with the axis, such as "tp", split into "tp.kv" and "tp.query"
  Layout::Dim queries;      // of size query_heads * head_size
  Layout::Dim keys_values;  // for keys and for values: of size key_value_heads * head_size
};

// Splits `axis` of `grid`. head_size: channels per head; with 1, the dims count heads. Throws
// InternalError if query_heads is not a multiple of key_value_heads.
HeadSharding shard_heads(const RankGrid& grid, std::string_view axis, int64_t query_heads,
                         int64_t key_value_heads, int64_t head_size = 1);

// Returns the query heads and the K/V heads that one rank holds: rank number `rank` along an axis
// of `ranks` ranks. If there are at least as many query heads as ranks, each rank holds at least
// one query head.
nn::LocalHeads local_heads_of(int64_t query_heads, int64_t key_value_heads, int ranks, int rank);

}  // namespace colossal
