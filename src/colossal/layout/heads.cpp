#include "colossal/layout/heads.h"

#include <numeric>

#include "colossal/base/error.h"

namespace colossal {

HeadSharding shard_heads(const RankGrid& grid, std::string_view axis, int64_t query_heads,
                         int64_t key_value_heads, int64_t head_size) {
  COLOSSAL_CHECK(key_value_heads > 0 && query_heads % key_value_heads == 0,
                 "{} query heads, {} heads of keys and values", query_heads, key_value_heads);
  const int index = grid.axis(axis);
  const int size = grid.size(index);
  const int parts = static_cast<int>(std::gcd(key_value_heads, static_cast<int64_t>(size)));
  return {
      .grid = grid.split(axis, {{fmt::format("{}.kv", axis), parts},
                                {fmt::format("{}.query", axis), size / parts}}),
      .queries = {.segments = {{query_heads * head_size, head_size}},
                  .shards = {{index}, {index + 1}}},
      .keys_values = {.segments = {{key_value_heads * head_size, head_size}}, .shards = {{index}}}};
}

}  // namespace colossal
