#include "colossal/layout/head_share.h"

#include <numeric>

#include "colossal/layout/partition.h"

namespace colossal {

int key_value_replicas(int64_t heads, int64_t kv_heads, int parts) {
  return heads == kv_heads ? 1 : parts / static_cast<int>(std::gcd<int64_t>(kv_heads, parts));
}

nn::HeadShare share_heads(int64_t heads, int64_t kv_heads, int parts, int part) {
  const int replicas = key_value_replicas(heads, kv_heads, parts);
  const Range keys = Partition(kv_heads, parts / replicas).range(part / replicas);
  const int64_t queries_of_a_key = heads / kv_heads;
  const Range mine = Partition(keys.size() * queries_of_a_key, replicas).range(part % replicas);
  const int64_t first = keys.begin * queries_of_a_key;
  return {.queries = {first + mine.begin, first + mine.end}, .keys = keys};
}

}  // namespace colossal
