// What a sharded builder must know of a family beyond names and sizes: how its products are cut.
// Two products in a row make a pair (M. Shoeybi et al., "Megatron-LM", 2019): the first is cut
// along its outputs, what lies between works on parts, the second is cut along its inputs and sums.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "colossal/layout/segments.h"
#include "colossal/mesh/strategy.h"
#include "colossal/nn/builder.h"

namespace colossal::parallel {

struct LinearSharding {
  enum class Cut { outputs, inputs };
  // What decides who has which part of the dim that is cut: its segments, each cut as evenly as it
  // goes, or the heads of queries or of keys and values (layout/heads.h).
  enum class By { segments, queries, keys };
  Cut cut = Cut::outputs;
  By by = By::segments;
  std::vector<Segment> segments;
  int64_t head_size = 0;  // features of a head, where they are not as many as Sharding says; or 0
};

struct Sharding {
  // By the name that the model gives a layer, its scope left out: "qkv". A layer that is not here
  // is held whole by every rank.
  std::map<std::string, LinearSharding> products;
  int64_t hidden_size = 0;  // features of an activation between pairs
  int64_t heads = 0;        // of attention
  int64_t kv_heads = 0;
  int64_t head_size = 0;

  // Returns the runs that part `part` of `parts` has of the dim along which `product` is cut.
  std::vector<Range> held(const LinearSharding& product, int parts, int part) const;
  nn::LocalHeads heads_of(int parts, int part) const;
};

// InternalError if Strategy::key_value_replicas is not what follows from the heads.
void check_key_value_replicas(const Strategy& strategy, const Sharding& sharding);

}  // namespace colossal::parallel
