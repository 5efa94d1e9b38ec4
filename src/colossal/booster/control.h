// The control all-reduce, by which all ranks agree on a step. After the gradients are complete and
// before the update, one all-reduce sums the losses, counts, norms and flags of all ranks. Each
// rank then decides from the same sums whether and how to update. Engine uses this.
#pragma once

#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// Indices of the last entries of ControlMessage::routers: sums over the routers of all
// mixture-of-experts layers and over the micro-batches of a step.
enum RouterSum : size_t {
  kDropped,  // assignments of tokens to experts that were dropped for lack of capacity
  // Copies of experts that were made (Strategy::expert_copies). Each rank of an expert group counts
  // all copies of its group, so Engine divides the sum over ranks by the dp * sp * tp ranks of a
  // stage.
  kCopies,
  kRouterTerm,  // sum of LossSum::router_term
  kRouterSums   // number of the entries above
};

// Loss, counts, norm and flags of one rank in a step, or their sums over ranks. A vector with a
// shape such as [metrics, 2] has the elements of this array in row-major order.
struct ControlMessage {
  // Several ranks report the same labels and inputs, so the sum over all ranks has them several
  // times. The tp ranks of a tensor-parallel group all report the same loss_sum and token_count;
  // Engine divides these two sums by tp. All pp * sp * tp ranks of a replica report the same
  // input_count; Engine divides this sum by pp * sp * tp.
  double loss_sum = 0;        // sum of the losses of all labels that are not ignored
  double token_count = 0;     // number of labels that are not ignored
  double input_count = 0;     // number of input tokens, without padding
  double squared_norm = 0;    // squared norm of the gradients; each element is counted by one rank
  double non_finite = 0;      // number of ranks with a loss or gradient that is not finite
  double stop_requested = 0;  // number of ranks that received a request to stop
  // For each parameter of the engine, in the order of ChunkEngine::parameters(): the number of
  // ranks that have a gradient for the parameter.
  std::vector<double> used;
  // [metrics, 2], in the order of EngineConfig::metrics: the sum of a metric's values, and their
  // number.
  std::vector<double> metrics;
  // [maximum metrics, ranks of the group], for the metrics for which is_maximum() is true. A rank
  // writes its maxima into its own column and leaves 0 in the others, so that the sum over ranks
  // has the maxima of all ranks.
  std::vector<double> maxima;
  // Only for a model with experts, else empty: the number of rows (routed tokens) sent to each
  // expert, [blocks, experts], followed by the kRouterSums entries of RouterSum.
  std::vector<double> routers;
};

// Returns the entry of message.routers for `sum`. The model must have experts.
inline double& router_sum(ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}
inline double router_sum(const ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}

// Returns whether the metric named `metric` is reported as the maximum of its values in a step,
// instead of as their mean: whether the name ends in "/max". Values of such a metric must not be
// negative.
bool is_maximum(const std::string& metric);

// Returns the element-wise sum of the messages of all ranks of `group`. The vectors must have the
// same sizes on all ranks. Collective. Law: one all-reduce of 8 * (6 + used.size() + metrics.size()
// + maxima.size() + routers.size()) bytes, counted as Reason::control: 8 bytes for each of the 6
// scalar fields and for each element of the vectors.
ControlMessage reduce_control(const ControlMessage& mine, const comm::Group& group);

}  // namespace colossal
