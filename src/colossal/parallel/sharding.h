// How the linear layers of a model are sharded by tensor parallelism. models/ describes each family
// by a Sharding; the tensor-parallel builders read it.
//
// Two linear layers form a pair (M. Shoeybi et al., "Megatron-LM", 2019). The first layer is cut
// along its outputs (column-parallel), so each rank computes a part of the features between the two
// layers. The second layer is cut along its inputs (row-parallel), and its results are summed over
// ranks. An attention block and an MLP have one pair each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "colossal/layout/segments.h"
#include "colossal/mesh/strategy.h"
#include "colossal/nn/builder.h"

namespace colossal::parallel {

// The sharding of one linear layer.
struct LinearSharding {
  enum class Cut {
    outputs,  // the first layer of a pair
    inputs    // the second layer of a pair
  };
  // How the cut dim is divided.
  enum class By {
    segments,  // each of `segments` is divided as evenly as possible
    queries,   // by query heads (layout/heads.h)
    keys       // by K/V heads (layout/heads.h)
  };
  Cut cut = Cut::outputs;
  By by = By::segments;
  std::vector<Segment> segments;  // of the cut dim; used with By::segments
  // Features per head, used with By::queries and By::keys. 0: Sharding::head_size.
  int64_t head_size = 0;
};

struct Sharding {
  // The layers that are in pairs, by layer name without the scope: "qkv". A layer that is not in
  // the map is in no pair. In mode 1d, every rank holds the layer's whole weight. In the other
  // modes, the ranks that hold features of the same tokens divide the weight along its inputs and
  // sum their results: each of these ranks gets all outputs of these tokens.
  std::map<std::string, LinearSharding> products;
  int64_t hidden_size = 0;  // features of activations between pairs
  int64_t heads = 0;        // query heads
  int64_t kv_heads = 0;
  int64_t head_size = 0;  // features per head

  // Divides the cut dim of `product` into `parts` parts. Returns the indices in part number `part`,
  // as ascending ranges.
  std::vector<Range> held(const LinearSharding& product, int parts, int part) const;
  // Divides the attention heads into `parts` parts and returns the heads of part number `part`.
  // Several parts may have the same K/V heads (layout/heads.h).
  nn::LocalHeads heads_of(int parts, int part) const;
};

// Of each tower of a model (nn::ModelPart::tower), in their order.
using Shardings = std::vector<Sharding>;

// Throws InternalError if strategy.key_value_replicas is not key_value_replicas(heads, kv_heads,
// strategy.head_ranks()) (layout/heads.h) of each tower.
void check_key_value_replicas(const Strategy& strategy, const Shardings& shardings);

}  // namespace colossal::parallel
