// How a model family's linear layers are sharded. Two consecutive layers form a pair (M. Shoeybi et
// al., "Megatron-LM", 2019): the first is cut along its outputs (column-parallel), the operators
// between the two work on parts of the features, and the second is cut along its inputs
// (row-parallel) and its results are summed over ranks.
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
  // How the cut dim is divided. segments: each segment is divided as evenly as possible. queries:
  // by query heads; keys: by heads of keys and values (layout/heads.h).
  enum class By { segments, queries, keys };
  Cut cut = Cut::outputs;
  By by = By::segments;
  std::vector<Segment> segments;
  int64_t head_size = 0;  // features per head; 0: Sharding::head_size
};

struct Sharding {
  // By the layer's name in the model without its scope: "qkv". A layer that is not in the map is in
  // no pair: with 1d every rank holds it whole, in the other modes its inputs are divided.
  std::map<std::string, LinearSharding> products;
  int64_t hidden_size = 0;  // features of activations between pairs
  int64_t heads = 0;        // query heads
  int64_t kv_heads = 0;
  int64_t head_size = 0;

  // Returns the ranges of the cut dim of `product` in part number `part` of `parts`.
  std::vector<Range> held(const LinearSharding& product, int parts, int part) const;
  nn::LocalHeads heads_of(int parts, int part) const;
};

// Throws InternalError if Strategy::key_value_replicas does not fit the numbers of heads and of the
// ranks that divide them.
void check_key_value_replicas(const Strategy& strategy, const Sharding& sharding);

}  // namespace colossal::parallel
