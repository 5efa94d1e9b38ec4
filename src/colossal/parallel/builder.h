// Makes the builder that a strategy asks for: dense layers where tensors are held whole, else those
// of the tensor-parallel mode.
#pragma once

#include <memory>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/builder.h"
#include "colossal/parallel/sharding.h"

namespace colossal::parallel {

// `context` must outlive what is built.
std::unique_ptr<nn::Builder> make_builder(const ParallelContext& context, const Sharding& sharding);

}  // namespace colossal::parallel
