// Attention heads over ranks where groups of query heads share heads of keys and values (J. Ainslie
// et al. 2023, GQA): there may be fewer of the latter than ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/layout/layout.h"
#include "colossal/nn/builder.h"

namespace colossal {

// Returns how many neighbours along an axis of `ranks` ranks hold the same keys and values. With as
// many K/V heads as query heads it is 1, and all are cut alike. With fewer, they are cut over
// gcd(key_value_heads, ranks) ranks, so that no head is cut and no rank has more than another.
int key_value_replicas(int64_t query_heads, int64_t key_value_heads, int ranks);

// The axis in two factors: heads of keys and values are sharded over the first and replicated over
// the second; the query heads that belong to them are divided over the second. So every rank holds
// the keys and values of its queries.
struct HeadSharding {
  RankGrid grid;            // the axis ("tp") in two factors ("tp.kv", "tp.query")
  Layout::Dim queries;      // the heads as a dim of query_heads * head_size indices
  Layout::Dim keys_values;  // of keys, and the same of values: key_value_heads * head_size
};

// query_heads: a multiple of key_value_heads. head_size 1: dims of whole heads.
HeadSharding shard_heads(const RankGrid& grid, std::string_view axis, int64_t query_heads,
                         int64_t key_value_heads, int64_t head_size = 1);

// The heads of one rank of an axis of `ranks`. With at least as many query heads as ranks each has
// some.
nn::LocalHeads share_heads(int64_t query_heads, int64_t key_value_heads, int ranks, int rank);

}  // namespace colossal
