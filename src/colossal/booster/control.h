// The control all-reduce: the one message in which all ranks agree on a step. After the gradients
// are complete and before the update, all ranks sum their numbers, and each rank decides from the
// same sums.
#pragma once

#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// Sums over a step that concern routers, besides the rows of each expert.
enum RouterSum : size_t {
  kDropped,     // choices dropped because the expert was at its capacity
  kCopies,      // copied experts; each rank counts those of its layers
  kRouterTerm,  // LossSum::router_term
  kRouterSums   // number of the entries above
};

// The numbers of one rank in a step, or their sums over ranks.
struct ControlMessage {
  // Loss, labels and tokens are counted by every rank that has them: the ranks of tp have the same
  // labels, and the ranks of a replica the same inputs. Engine divides the sums accordingly.
  double loss_sum = 0;
  double token_count = 0;     // labels that are not ignored
  double input_count = 0;     // input tokens, without padding
  double squared_norm = 0;    // of the gradients; each element counts once
  double non_finite = 0;      // ranks with a loss or gradient that is not finite
  double stop_requested = 0;  // ranks that received a request to stop
  std::vector<double> used;   // number of ranks with a gradient for each of Engine's parameters
  // The sum of each metric and the count of its values: [metrics, 2], in the order of
  // EngineConfig::metrics.
  std::vector<double> metrics;
  // [metrics for which is_maximum() is true, ranks of the group]. A rank sets only its own entries,
  // to its maxima; the others are 0.
  std::vector<double> maxima;
  // Only for a model with experts: the rows sent to each expert, [blocks, experts], followed by one
  // entry for each RouterSum.
  std::vector<double> routers;
};

// Return the entry of ControlMessage::routers for `sum`. Only for a model with experts.
inline double& router_sum(ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}
inline double router_sum(const ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}

// Whether a metric is reported as the maximum of its values in a step instead of their mean: true
// if its name ends in "/max". The values of such a metric must not be negative.
bool is_maximum(const std::string& metric);

// Returns the sums over the ranks of `group`. Collective. Law: one all-reduce of 8 * (6 +
// used.size() + metrics.size() + maxima.size() + routers.size()) bytes, counted as Reason::control.
ControlMessage reduce_control(const ControlMessage& mine, const comm::Group& group);

}  // namespace colossal
