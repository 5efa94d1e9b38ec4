// Makes the nn::Builder for a strategy. With tp = 1 it builds layers whose tensors are whole,
// otherwise layers of the strategy's tensor-parallel mode.
#pragma once

#include <memory>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

// `context` must outlive the builder and its layers.
std::unique_ptr<nn::Builder> make_builder(const ParallelContext& context, const Sharding& sharding);

}  // namespace colossal::parallel
