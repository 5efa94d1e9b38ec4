// Makes the nn::Builder that builds a model's layers for the strategy of a job: with tp = 1 layers
// whose weights are whole, else layers of the strategy's tensor-parallel mode. With sp > 1,
// attention is that of the sequence-parallel mode. The builder knows the stage of each layer.
#pragma once

#include <memory>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

// sharding: how the model's linear layers are cut; used if tp > 1. `context` must outlive the
// builder and its layers.
std::unique_ptr<nn::Builder> make_builder(const ParallelContext& context, const Sharding& sharding);

}  // namespace colossal::parallel
