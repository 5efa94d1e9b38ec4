// How tensor parallelism shards a decoder's linear layers.
#pragma once

#include "colossal/models/decoder_config.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models {

parallel::Sharding sharding(const DecoderConfig& config);

}  // namespace colossal::models
