// How the heads of an attention are shared out.
#pragma once

#include <cstdint>

#include "colossal/nn/builder.h"

namespace colossal {

// How many ranks in a row hold the same keys and values. As many heads of those as queries: 1.
// Fewer (J. Ainslie et al., "GQA", 2023): those heads are cut over gcd(kv_heads, parts) ranks and
// held by `parts` / that many each, so that none is cut and none lies idle.
int key_value_replicas(int64_t heads, int64_t kv_heads, int parts);

// What part `part` of `parts` has: of the queries that see its keys an even share. heads >= parts.
nn::HeadShare share_heads(int64_t heads, int64_t kv_heads, int parts, int part);

}  // namespace colossal
