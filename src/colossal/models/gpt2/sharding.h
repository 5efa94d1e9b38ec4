// How GPT-2's products are cut among the ranks of a tensor-parallel group.
#pragma once

#include "colossal/models/gpt2/config.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models::gpt2 {

parallel::Sharding sharding(const Config& config);

}  // namespace colossal::models::gpt2
