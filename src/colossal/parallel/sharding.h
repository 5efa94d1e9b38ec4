// What a sharded builder must know of a family beyond names and sizes: how its products are cut.
// Two products in a row make a pair (M. Shoeybi et al., "Megatron-LM", 2019): the first is cut
// along its outputs, what lies between works on parts, the second is cut along its inputs and sums.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "colossal/layout/segments.h"

namespace colossal::parallel {

struct LinearSharding {
  enum class Cut { outputs, inputs };
  Cut cut = Cut::outputs;
  std::vector<Segment> segments;  // of the dim that is cut
};

// By the name that the model gives a layer, its scope left out: "qkv". A layer that is not here is
// held whole by every rank.
using Sharding = std::map<std::string, LinearSharding>;

}  // namespace colossal::parallel
