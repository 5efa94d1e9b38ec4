#include "colossal/parallel/builder.h"

#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/tensor_1d.h"

namespace colossal::parallel {

std::unique_ptr<nn::Builder> make_builder(const ParallelContext& context,
                                          const Sharding& sharding) {
  if (context.strategy().tp == 1) return std::make_unique<nn::DenseBuilder>();
  return std::make_unique<Tensor1dBuilder>(context, sharding);
}

}  // namespace colossal::parallel
