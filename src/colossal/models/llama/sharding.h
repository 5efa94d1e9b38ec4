// How the products of a Llama are cut among the ranks of a tensor-parallel group.
#pragma once

#include "colossal/models/llama/config.h"
#include "colossal/parallel/sharding.h"

namespace colossal::models::llama {

parallel::Sharding sharding(const Config& config);

}  // namespace colossal::models::llama
