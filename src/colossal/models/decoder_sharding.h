// How a decoder's products are cut among the ranks of a tensor-parallel group.
#pragma once

#include "colossal/models/decoder_config.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models {

parallel::Sharding sharding(const DecoderConfig& config);

}  // namespace colossal::models
