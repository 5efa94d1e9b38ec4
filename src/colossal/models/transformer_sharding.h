// Says how tensor parallelism shards the linear layers of a Transformer.
#pragma once

#include "colossal/models/transformer_config.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models {

// Returns, for parallel::make_builder(), which dimension of each linear layer is divided among the
// ranks of tp: outputs or inputs, by heads or evenly.
parallel::Sharding sharding(const TransformerConfig& config);

}  // namespace colossal::models
