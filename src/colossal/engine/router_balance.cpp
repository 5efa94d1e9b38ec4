#include "colossal/engine/router_balance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "colossal/comm/group.h"

namespace colossal {

RouterBalance::RouterBalance(memory::ChunkEngine& chunks, const ParallelContext& context,
                             int64_t num_blocks, int64_t experts, double rate)
    : chunks_(chunks), context_(context), num_blocks_(num_blocks), experts_(experts), rate_(rate) {}

// Each element of a bias is in one rank's shard, so the sum of all zero-padded shards is the whole
// bias.
void RouterBalance::after_update(const std::vector<double>& rows) {
  const auto numbers = at::TensorOptions().dtype(at::kDouble).device(context_.device());
  const at::Tensor biases = at::zeros({num_blocks_, experts_}, numbers);
  nn::ParameterList here;
  for (const nn::ParameterHandle& parameter : chunks_.parameters()) {
    if (parameter->role != nn::ParameterRole::router_bias || !chunks_.is_here(*parameter)) continue;
    here.push_back(parameter);
    chunks_.for_each_checkpoint_shard(*parameter, [&](const memory::OwnedShard& piece) {
      biases[parameter->part.block]
          .narrow(0, piece.elements.begin, piece.elements.size())
          .copy_(piece.working());
    });
  }
  comm::all_reduce(biases.view(-1), context_.world_group(), comm::Reason::control);
  const at::Tensor rows_of_experts = at::tensor(rows, at::kDouble)
                                         .narrow(0, 0, num_blocks_ * experts_)
                                         .view({-1, experts_})
                                         .to(context_.device());
  biases.add_((rows_of_experts.mean(1, /*keepdim=*/true) - rows_of_experts).sign(), rate_);
  for (const nn::ParameterHandle& parameter : here) {
    chunks_.load(*parameter, 0, biases[parameter->part.block]);
  }
}

}  // namespace colossal
