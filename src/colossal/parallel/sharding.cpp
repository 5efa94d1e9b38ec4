#include "colossal/parallel/sharding.h"

#include "colossal/base/error.h"
#include "colossal/layout/heads.h"

namespace colossal::parallel {

nn::LocalHeads Sharding::heads_of(int parts, int part) const {
  return local_heads_of(heads, kv_heads, parts, part);
}

std::vector<Range> Sharding::held(const LinearSharding& product, int parts, int part) const {
  if (product.by == LinearSharding::By::segments) {
    return indices_of_part(product.segments, parts, part);
  }
  const nn::LocalHeads here = heads_of(parts, part);
  const Range range = product.by == LinearSharding::By::queries ? here.queries : here.keys;
  const int64_t size = product.head_size > 0 ? product.head_size : head_size;
  return {{range.begin * size, range.end * size}};
}

void check_key_value_replicas(const Strategy& strategy, const Shardings& shardings) {
  for (const Sharding& sharding : shardings) {
    const int replicas =
        key_value_replicas(sharding.heads, sharding.kv_heads, strategy.head_ranks());
    COLOSSAL_CHECK(strategy.key_value_replicas == replicas,
                   "Strategy::key_value_replicas is {}; with {} heads, {} of keys and values, and "
                   "{} ranks that share them it is {}",
                   strategy.key_value_replicas, sharding.heads, sharding.kv_heads,
                   strategy.head_ranks(), replicas);
  }
}

}  // namespace colossal::parallel
