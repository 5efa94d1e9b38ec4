// The control all-reduce, the only synchronisation of all ranks in a step. After the gradients are
// complete and before the update, all ranks sum what they must agree on, so all ranks decide the
// same.
#pragma once

#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// Statistics of the routers in a step, besides the rows of each expert.
enum RouterSum : size_t {
  kDropped,     // choices dropped because the expert was at its capacity
  kCopies,      // experts that were copied, summed over ranks
  kRouterTerm,  // LossSum::router_term
  kRouterSums
};

struct ControlMessage {
  double loss_sum = 0;
  double token_count = 0;     // labels that are not ignored
  double input_count = 0;     // input tokens, without padding
  double squared_norm = 0;    // of the gradients; each element counts once
  double non_finite = 0;      // ranks with a loss or gradient that is not finite
  double stop_requested = 0;  // ranks that received a request to stop
  std::vector<double> used;   // for each parameter: number of ranks with a gradient for it
  // Sum and count of each metric, in the order of EngineConfig::metrics.
  std::vector<double> metrics;
  // For each metric that is a maximum, and each rank of the group: the rank's maximum. A rank sets
  // only its own entry; the other entries are 0.
  std::vector<double> maxima;
  // Only for a model with experts: rows sent to each expert, [blocks, experts], then one entry for
  // each RouterSum.
  std::vector<double> routers;
};

// Returns an entry of ControlMessage::routers. Only for a model with experts.
inline double& router_sum(ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}
inline double router_sum(const ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}

// Whether a metric is reported as the maximum of a step instead of the mean. This holds if its name
// ends in "/max". Its values must not be negative.
bool is_maximum(const std::string& metric);

// Returns the sum over `group`. One all-reduce of 8 * (6 + parameters + 2 metrics + ranks * maxima
// + routers) bytes, counted as Reason::control.
ControlMessage reduce_control(const ControlMessage& mine, const comm::Group& group);

}  // namespace colossal
