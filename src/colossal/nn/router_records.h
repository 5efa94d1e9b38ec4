// Statistics of the routers of a forward pass: metrics, and the inputs of the losses that balance
// experts (booster/router_loss.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::nn {

struct RouterRecord {
  int64_t layer = 0;            // index of the block
  std::vector<int64_t> counts;  // rows of each expert
  int64_t dropped = 0;          // (token, expert) choices dropped for lack of capacity
  int64_t copies = 0;           // experts that were copied to all ranks for this pass
  // Differentiable, in the router's compute type; undefined unless for_losses. probabilities and
  // chosen: [sequences of the micro-batch, experts], sums over each sequence's tokens on this rank
  // of the experts' probabilities and of their choices (0 or 1). squared_log_sums: scalar, sum over
  // this rank's tokens of logsumexp(logits)^2.
  at::Tensor probabilities;
  at::Tensor chosen;
  at::Tensor squared_log_sums;
};

struct RouterRecords {
  bool for_losses = false;
  std::vector<RouterRecord> layers;  // in order of execution
};

}  // namespace colossal::nn
