#include "colossal/parallel/builder.h"

#include "colossal/parallel/expert/sharded_experts.h"
#include "colossal/parallel/sequence/divided_memory.h"
#include "colossal/parallel/sequence/ring.h"
#include "colossal/parallel/sequence/ulysses.h"
#include "colossal/parallel/tensor/tensor_1d.h"
#include "colossal/parallel/tensor/tensor_2d.h"
#include "colossal/parallel/tensor/tensor_3d.h"

namespace colossal::parallel {

namespace {

nn::StageOf stages_of(const Strategy& strategy) {
  return [strategy](const nn::ModelPart& part) {
    switch (part.kind) {
      case nn::ModelPart::Kind::embedding:
        return 0;
      case nn::ModelPart::Kind::block:
        return strategy.stage_of_block(part.block);
      case nn::ModelPart::Kind::head:
        return strategy.num_stages() - 1;
    }
    return 0;
  };
}

std::unique_ptr<nn::DenseBuilder> builder_of_mode(const ParallelContext& context,
                                                  const Shardings& shardings) {
  nn::MakeAttention attention = nn::make_dense_attention;
  if (context.strategy().sp > 1) {
    const bool ring = context.strategy().sequence_mode == SequenceMode::ring;
    attention = (ring ? make_ring_attention : make_ulysses_attention)(context.group(Axis::sp));
  }
  const int64_t table_rows = context.strategy().table_rows;
  if (context.strategy().tp == 1) {
    return std::make_unique<ExpertBuilder>(context, attention, table_rows);
  }
  switch (context.strategy().tensor_mode) {
    case TensorMode::one_d:
      return std::make_unique<Tensor1dBuilder>(context, shardings, attention, table_rows);
    case TensorMode::two_d:
    case TensorMode::two_and_half_d:
      return std::make_unique<Tensor2dBuilder>(context, shardings, attention, table_rows);
    case TensorMode::three_d:
      return std::make_unique<Tensor3dBuilder>(context, shardings, attention, table_rows);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<nn::Builder> make_builder(const ParallelContext& context,
                                          const Shardings& shardings) {
  auto builder = builder_of_mode(context, shardings);
  builder->set_stages(stages_of(context.strategy()));
  if (context.strategy().sp > 1) builder->set_divided_sequences(divided_sequences(context));
  return builder;
}

}  // namespace colossal::parallel
