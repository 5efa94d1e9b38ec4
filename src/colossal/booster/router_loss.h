// Losses that balance experts (nn/router.h). Each stage of a pipeline passes on what its routers
// recorded, with a graph, and the last one makes the loss of it, so that it is one whatever the
// stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/router.h"
#include "colossal/nn/router_records.h"
#include "colossal/nn/step_context.h"

namespace colossal {

// The records of a stage's routers after those of the stages before it (undefined: none):
// [layers, 2 * sequences * experts + 1]; undefined where no layer so far has experts.
at::Tensor join_records(const at::Tensor& before, const nn::RouterRecords& records);

// This rank's term of the loss of a micro-batch, a scalar with a graph, from the records of all
// layers. All ranks' terms add up to the loss times the labels that count in the micro-batch of all
// replicas, of which `labels` are here: so the loss is weighted as the mean over labels is.
// Collective over the ranks of a stage, booked as Reason::expert. Laws: an all-reduce of 16 B over
// dp and sp; with RouterLosses::Over::sequence all-reduces of all layers' [sequences, experts] in
// the router's type over sp and over tp, else one of their [experts] over dp, sp and tp.
using RouterLoss = std::function<at::Tensor(const at::Tensor& records, double labels,
                                            const nn::StepContext& context)>;
// None where there is no such loss. `context` must outlive it.
RouterLoss make_router_loss(const nn::RouterLosses& losses, const ParallelContext& context);

}  // namespace colossal
