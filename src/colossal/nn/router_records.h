// Statistics of the routers in a forward pass: for metrics, and for the losses that balance experts
// (booster/router_loss.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::nn {

struct RouterRecord {
  int64_t layer = 0;            // index of the block
  std::vector<int64_t> counts;  // number of rows that this rank routed to each expert
  int64_t dropped = 0;          // choices of an expert by a token that its capacity dropped
  int64_t copies = 0;           // number of experts that were copied to all ranks in this pass
  // In the router's compute type; undefined unless for_losses. probabilities and chosen: [sequences
  // of the micro-batch, experts]. They hold, summed over the tokens of each sequence that this rank
  // routes, the probability of each expert (differentiable) and whether it was chosen (0 or 1).
  // squared_log_sums: scalar, the sum over these tokens of logsumexp(logits)^2; differentiable.
  at::Tensor probabilities;
  at::Tensor chosen;
  at::Tensor squared_log_sums;
};

struct RouterRecords {
  bool for_losses = false;
  std::vector<RouterRecord> layers;  // in order of execution
};

}  // namespace colossal::nn
