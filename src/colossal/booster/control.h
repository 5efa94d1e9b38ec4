// The control all-reduce, the one wait of a step: after the gradients and before the update all
// ranks add up what they must agree on, and so decide alike.
#pragma once

#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// What routers did in a step, beside counting rows.
enum RouterSum : size_t {
  kDropped,     // choices that no expert took, where routers have a capacity
  kCopies,      // experts that were copied, counted by each rank
  kRouterTerm,  // LossSum::router_term
  kRouterSums
};

struct ControlMessage {
  double loss_sum = 0;
  double token_count = 0;     // labels that counted
  double input_count = 0;     // inputs
  double squared_norm = 0;    // of the gradients, each element counted once
  double non_finite = 0;      // ranks that saw a loss or gradient that is not finite
  double stop_requested = 0;  // ranks that were asked to stop
  std::vector<double> used;   // for each parameter: ranks that had a gradient for it
  // The sum and the count of each metric, in the order of EngineConfig::metrics.
  std::vector<double> metrics;
  // Of each metric that is a maximum: for each rank of the group its largest number, 0 at others.
  std::vector<double> maxima;
  // Of a model with experts: for each block and expert the rows that it was given, by block; then
  // each RouterSum.
  std::vector<double> routers;
};

// Of a model with experts: one of ControlMessage::routers.
inline double& router_sum(ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}
inline double router_sum(const ControlMessage& message, RouterSum sum) {
  return message.routers[message.routers.size() - kRouterSums + sum];
}

// Whether a metric, by its name ("../max"), is the largest number of a step instead of the mean.
// Its numbers are not negative.
bool is_maximum(const std::string& metric);

// Sums over `group`; one all-reduce of 8 * (6 + parameters + 2 metrics + ranks * maxima + routers)
// bytes, booked as `control`.
ControlMessage reduce_control(const ControlMessage& mine, const comm::Group& group);

}  // namespace colossal
