// Attention heads over ranks where groups of query heads share heads of keys and values (J. Ainslie
// et al. 2023, GQA): there may be fewer of the latter than ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/layout/layout.h"

namespace colossal {

// Over an axis of t ranks: heads of keys and values are sharded over a factor of it of
// gcd(key_value_heads, t) ranks and replicated over the rest; the query heads that belong to them
// are divided over the rest. So every rank holds the keys and values of its queries.
struct HeadSharding {
  RankGrid grid;            // the axis ("tp") in two factors ("tp.kv", "tp.query")
  Layout::Dim queries;      // the heads as a dim of query_heads * head_size indices
  Layout::Dim keys_values;  // of keys, and the same of values: key_value_heads * head_size
};

// query_heads: a multiple of key_value_heads. head_size 1: dims of whole heads.
HeadSharding shard_heads(const RankGrid& grid, std::string_view axis, int64_t query_heads,
                         int64_t key_value_heads, int64_t head_size = 1);

}  // namespace colossal
