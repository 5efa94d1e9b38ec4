// Sharding of attention heads over ranks with grouped-query attention (J. Ainslie et al. 2023,
// GQA), where there may be fewer key/value heads than ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/layout/layout.h"
#include "colossal/nn/builder.h"

namespace colossal {

// Returns how many consecutive ranks along an axis of `ranks` ranks hold the same keys and values.
// With as many K/V heads as query heads: 1, and both are sharded alike. With fewer, K/V heads are
// sharded over gcd(key_value_heads, ranks) ranks, so that no head is split and all ranks hold
// equally many. Throws InternalError if query_heads is not a multiple of key_value_heads.
int key_value_replicas(int64_t query_heads, int64_t key_value_heads, int ranks);

// The axis, split into two factors: K/V heads are sharded over the first and replicated over the
// second; the query heads of each K/V shard are sharded over the second. So each rank holds the
// keys and values that its queries need.
struct HeadSharding {
  RankGrid grid;            // the axis ("tp") is split into two factors ("tp.kv", "tp.query")
  Layout::Dim queries;      // of size query_heads * head_size
  Layout::Dim keys_values;  // of keys, or of values; of size key_value_heads * head_size
};

// query_heads must be a multiple of key_value_heads. With head_size 1, dims count whole heads.
HeadSharding shard_heads(const RankGrid& grid, std::string_view axis, int64_t query_heads,
                         int64_t key_value_heads, int64_t head_size = 1);

// Returns the heads that rank `rank` of an axis of `ranks` ranks holds. If there are at least as
// many query heads as ranks, each rank holds at least one.
nn::LocalHeads share_heads(int64_t query_heads, int64_t key_value_heads, int ranks, int rank);

}  // namespace colossal
