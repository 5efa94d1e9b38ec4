// Computes the router losses of a mixture-of-experts model over a pipeline: the loss that balances
// the experts and the z-loss of the routers (nn::RouterLosses). Each stage passes the records of
// its routers, with their autograd graph, to the next stage. The last stage computes the loss from
// the records of all layers, so the loss does not depend on how the model is cut into stages. Used
// by stages_of() in staged_model.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/router.h"
#include "colossal/nn/router_records.h"
#include "colossal/nn/step_context.h"
#include "colossal/ops/pending_sum.h"

namespace colossal {

// Returns the records of all routers of a micro-batch up to this stage, one row for each layer with
// experts: [layers, 2 * sequences * experts + 1], in the router's dtype. A row consists of
// RouterRecord::probabilities, ::chosen and ::squared_log_sums, flattened. before: the result for
// the stage before; undefined in the first stage, or if no layer before has experts. records: the
// records of this stage's routers, made with RouterRecords::for_losses set. Returns an undefined
// tensor if no layer so far has experts.
at::Tensor append_router_records(const at::Tensor& before, const nn::RouterRecords& records);

// A function that returns this rank's term of the router losses, a scalar with an autograd graph.
// In a call, each replica has one micro-batch. The losses are those of these micro-batches of all
// replicas together.
//   records: result of append_router_records() in the last stage, defined.
//   labels:  this rank's number of labels that are not ignored (LossSum::count / LossSum::copies in
//            staged_model.h). L is the sum of these numbers over dp and sp, i.e. the number of such
//            labels in the micro-batches of all replicas together.
//   context: the StepContext of the forward pass of this replica's micro-batch.
// The terms of all ranks of the last stage (dp x sp x tp) add up to L times the router losses.
// Engine divides the sum over micro-batches by the number of labels in the step, as for the main
// loss.
// Collective over the ranks of the last stage, counted as Reason::expert. Law: an all-reduce of 16
// bytes over dp and sp (the numbers of labels and of tokens, in fp64). If RouterLosses::balance is
// not 0, in addition: if RouterLosses::over is Over::sequence, all-reduces of [layers, sequences,
// experts] in the router's dtype over sp and over tp; otherwise one all-reduce of [layers, experts]
// over dp, sp and tp.
using RouterLoss = std::function<at::Tensor(
    const at::Tensor& records, const ops::PendingSum& labels, const nn::StepContext& context)>;
// Returns the function that computes `losses`; empty if `losses` has neither of the two losses.
// `context` must outlive the result.
RouterLoss make_router_loss(const nn::RouterLosses& losses, const ParallelContext& context);

}  // namespace colossal
