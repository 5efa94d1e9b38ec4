// Makes the nn::Builder that builds a model's layers for the strategy of a job: with tp = 1 layers
// whose weights are whole (except experts, if ep > 1), else layers of the strategy's
// tensor-parallel mode. With sp > 1, attention is that of the sequence-parallel mode. Every rank
// makes the layers of all pipeline stages. Placement::stage (nn/parameter.h) is the stage of a
// parameter, from which a rank knows whether it holds the parameter.
#pragma once

#include <memory>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

// shardings: how the linear layers of each of the model's towers are cut; used if tp > 1. `context`
// must outlive the builder and its layers.
std::unique_ptr<nn::Builder> make_builder(const ParallelContext& context,
                                          const Shardings& shardings);

}  // namespace colossal::parallel
