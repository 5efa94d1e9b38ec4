// Losses that balance experts (nn/router.h). Each stage of a pipeline passes the records of its
// routers, with their graph, to the next stage. The last stage computes the loss from the records
// of all layers, so the loss does not depend on the cut into stages.
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

// Returns `before`, the records of the earlier stages, followed by those of this stage's routers:
// [layers, 2 * sequences * experts + 1]. A row has RouterRecord::probabilities, ::chosen and
// ::squared_log_sums of a layer with experts. Returns an undefined tensor if no layer so far has
// experts; `before` may be undefined, too.
at::Tensor join_records(const at::Tensor& before, const nn::RouterRecords& records);

// Returns this rank's term of the losses of a micro-batch, a scalar with a graph. records: result
// of join_records() for all layers. labels: number of labels on this rank that are not ignored. The
// sum of the terms over ranks is the loss times the number of such labels in the micro-batch of all
// replicas. Engine divides it by the labels of the step, as it divides the main loss. Collective
// over the ranks of the last stage, counted as Reason::expert. Laws: an all-reduce of 16 B over dp
// and sp.
// For the balance loss in addition: with RouterLosses::Over::sequence, all-reduces of [layers,
// sequences, experts] in the router's dtype over sp and over tp; otherwise one all-reduce of
// [layers, experts] over dp, sp and tp.
using RouterLoss = std::function<at::Tensor(const at::Tensor& records, double labels,
                                            const nn::StepContext& context)>;
// Returns the function for these losses; null if all are off. `context` must outlive the result.
RouterLoss make_router_loss(const nn::RouterLosses& losses, const ParallelContext& context);

}  // namespace colossal
