// RouterBalance: the rule of the correction biases of routers, by which experts get equal numbers
// of tokens without a loss for it (L. Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing").
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

class RouterBalance {
 public:
  // chunks: with the model's parameters, those of nn::ParameterRole::router_bias among them;
  // context: both must outlive this object. num_blocks, experts: EngineConfig. rate: by which a
  // step changes the bias of each expert.
  RouterBalance(memory::ChunkEngine& chunks, const ParallelContext& context, int64_t num_blocks,
                int64_t experts, double rate);

  // Raises the biases of the experts that had fewer rows (routed tokens) than the mean of their
  // layer, and lowers those of experts that had more. rows: [blocks, experts] and what follows in
  // ControlMessage::routers, summed over all ranks, so that all ranks change the biases alike.
  // Collective. Law: an all-reduce of 8 B for each expert of each block, Reason::control.
  void after_update(const std::vector<double>& rows);

 private:
  memory::ChunkEngine& chunks_;
  const ParallelContext& context_;
  int64_t num_blocks_, experts_;
  double rate_;
};

}  // namespace colossal
