#include "colossal/parallel/builder.h"

#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/sequence/ring.h"
#include "colossal/parallel/sequence/ulysses.h"
#include "colossal/parallel/tensor_1d.h"

namespace colossal::parallel {

std::unique_ptr<nn::Builder> make_builder(const ParallelContext& context,
                                          const Sharding& sharding) {
  nn::MakeAttention attention = nn::make_dense_attention;
  if (context.strategy().sp > 1) {
    const bool ring = context.strategy().sequence_mode == SequenceMode::ring;
    attention = (ring ? make_ring_attention : make_ulysses_attention)(context.group(Axis::sp));
  }
  if (context.strategy().tp == 1) return std::make_unique<nn::DenseBuilder>(attention);
  return std::make_unique<Tensor1dBuilder>(context, sharding, attention);
}

}  // namespace colossal::parallel
