// What the routers of a forward pass say of the tokens that they routed: figures, and what losses
// that balance experts are made of (booster/router_loss.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::nn {

struct RouterRecord {
  int64_t layer = 0;            // index of the block
  std::vector<int64_t> counts;  // rows that each expert was given
  int64_t dropped = 0;          // choices of tokens that no expert took
  int64_t copies = 0;           // experts that all ranks had for this pass
  // With a graph, in the router's type; undefined unless asked for. Sums over the tokens here of
  // each sequence of the micro-batch, [sequences, experts]: of the experts' probabilities, and of
  // how often each was chosen. And over all tokens here: of squared logarithms of the sums of
  // exponentials of logits.
  at::Tensor probabilities;
  at::Tensor chosen;
  at::Tensor squared_log_sums;
};

struct RouterRecords {
  bool for_losses = false;
  std::vector<RouterRecord> layers;  // in the order in which they ran
};

}  // namespace colossal::nn
