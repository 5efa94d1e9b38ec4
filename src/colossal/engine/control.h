// The control all-reduce, by which all ranks agree on a step. After the gradients are complete and
// before the update, one all-reduce sums the losses, counts, norms and flags of all ranks. Each
// rank then decides from the same sums whether and how to update. Engine uses this.
#pragma once

#include <string>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/ops/pending_sum.h"

namespace colossal {

// The last kRouterSums entries of ControlMessage::routers, in this order: sums over the routers of
// all mixture-of-experts layers and over the micro-batches of a step. router_sum() returns one.
enum RouterSum : size_t {
  // Assignments of tokens to experts that were dropped for lack of capacity. Each is counted by one
  // rank: the rank that routes the token.
  kDropped,
  // Number of experts that were copied (Strategy::expert_copies). The dp * sp * tp ranks of a stage
  // are divided into sets of ep * expert_tp ranks. The ranks of a set together hold all experts of
  // the stage's layers. They copy the same experts, and each of them counts all experts that the
  // set copies. Engine divides the sum over all ranks by dp * sp * tp. The quotient is the number
  // of copied experts in all layers of the model, as a mean over the sets.
  kCopies,
  // Sum of LossSum::router_term, the losses that balance experts. Only ranks of the last stage have
  // terms. The terms of different ranks, those of tp included, add up to the whole losses, so
  // Engine does not divide their sum by a number of ranks.
  kRouterTerm,
  kRouterSums  // number of the entries above
};

// Loss, counts, norm and flags of a step: of one rank (ControlMessage), or their sums over ranks
// (ControlSums). A shape in the comment of a vector, such as [metrics, 2], means that the vector
// has the elements of an array of this shape, in row-major order.
template <typename Number>
struct ControlNumbers {
  // Several ranks report the same labels and inputs, so the sum over all ranks has them several
  // times, and Engine divides it. The tp ranks of a tensor-parallel group all report the same
  // loss_sum and token_count; Engine divides these two sums by tp. All pp * sp * tp ranks of a
  // replica report the same input_count; Engine divides this sum by pp * sp * tp.
  Number loss_sum = 0;        // sum of the losses of all labels that are not ignored
  Number token_count = 0;     // number of labels that are not ignored
  Number input_count = 0;     // number of input tokens, without padding
  Number squared_norm = 0;    // squared norm of the gradients; each element is counted by one rank
  Number stop_requested = 0;  // number of ranks that received a request to stop
  // For each parameter of the whole model, in the order of ChunkEngine::parameters(), which is the
  // same on all ranks: the number of ranks that have computed a gradient for the parameter.
  std::vector<Number> used;
  // [metrics, 2], for all metrics in EngineConfig::metrics, in their order: the sum of a metric's
  // values, and their number.
  std::vector<Number> metrics;
  // [maximum metrics, ranks of reduce_control()'s group], only for the metrics whose name ends in
  // "/max" (is_maximum()), in their order in EngineConfig::metrics. A rank writes its maxima into
  // its own column and leaves 0 in the others, so that the sum over ranks has the maxima of all
  // ranks.
  std::vector<Number> maxima;
  // Only for a model with experts, else empty: the number of rows sent to each expert, [blocks,
  // experts], followed by the kRouterSums entries of RouterSum. A row is a token for one of its
  // experts; dropped assignments are no rows. Each row is counted by one rank: the rank that routes
  // the token.
  std::vector<Number> routers;
};
using ControlMessage = ControlNumbers<ops::PendingSum>;
using ControlSums = ControlNumbers<double>;

// Returns the entry of message.routers for `sum`. The model must have experts.
inline ops::PendingSum& router_sum(ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}
inline double router_sum(const ControlSums& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}

// Returns whether the metric named `metric` is reported as the maximum of its values in a step,
// instead of as their mean: whether the name ends in "/max". Values of such a metric must not be
// negative.
bool is_maximum(const std::string& metric);

// Returns the element-wise sum of the messages of all ranks of `group`. The vectors must have the
// same sizes on all ranks. Waits for the device: for the rest of a step, no rank has to.
// Collective. Law: one all-reduce of 8 * (5 + used.size() + metrics.size()
// + maxima.size() + routers.size()) bytes, counted as Reason::control: 8 bytes for each of the 5
// scalar fields and for each element of the vectors.
ControlSums reduce_control(const ControlMessage& mine, const comm::Group& group);

}  // namespace colossal
