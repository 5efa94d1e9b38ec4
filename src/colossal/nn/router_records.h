// Statistics of all routers in a forward pass. A caller that wants them sets
// StepServices::router_records; mixture-of-experts layers then append one RouterRecord each. Used
// for metrics and for the losses that balance experts (engine/router_loss.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::nn {

// Statistics of one mixture-of-experts layer, over the tokens that this rank routes; `copies` is
// over the whole expert group, i.e. the ranks among which the experts of the layer are divided.
struct RouterRecord {
  int64_t layer = 0;            // index of the block
  std::vector<int64_t> counts;  // for each expert, number of tokens routed to it and not dropped
  int64_t dropped = 0;          // number of (token, expert) choices dropped for expert capacity
  // Number of the layer's experts whose weights were copied to other ranks of the expert group; the
  // ranks of a group have the same number.
  int64_t copies = 0;
  // The tensors below are undefined unless the caller has set RouterRecords::for_losses. They are
  // in the router's compute type.

  // [sequences of the micro-batch, experts]: sum over the sequence's tokens of each expert's
  // probability; differentiable.
  at::Tensor probabilities;
  // [sequences of the micro-batch, experts]: number of the sequence's tokens that chose each
  // expert.
  at::Tensor chosen;
  // Scalar: sum over tokens of logsumexp(logits)^2; differentiable.
  at::Tensor squared_log_sums;
};

struct RouterRecords {
  bool for_losses = false;           // set by the caller: whether to record tensors for losses
  std::vector<RouterRecord> layers;  // in order of execution
};

}  // namespace colossal::nn
