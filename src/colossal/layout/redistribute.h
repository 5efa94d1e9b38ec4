// Converts a distributed tensor from one layout to another, by the cheapest sequence of
// collectives. Differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/layout/grid_groups.h"
#include "colossal/layout/redistribution.h"

namespace colossal {

// The plan that converts a tensor from layout `from` to layout `to`, and the plan that converts its
// gradient in the backward pass. The gradient of a tensor in layout L has the layout L.conjugate()
// (layout.h). Make a Redistribution once and use it for all tensors with these layouts.
struct Redistribution {
  Redistribution(const Layout& from, const Layout& to)
      : forward(from, to), backward(to.conjugate(), from.conjugate()) {}

  RedistributionPlan forward;
  RedistributionPlan backward;
};

// Returns this rank's local tensor in layout redistribution.forward.to(); x itself if the plan has
// no steps. Collective over all ranks of the grid, in the forward and in the backward pass.
//   x               this rank's local tensor in layout redistribution.forward.from(); may be on the
//                   meta device in a dry run
//   redistribution  must outlive the backward pass
//   groups          of the grid of both layouts; must outlive the backward pass
//   reason          the reason under which the ledger counts the bytes
// Unless the plan has no steps, throws InternalError if x does not have the local shape of this
// rank, or if `groups` is of another grid.
at::Tensor redistribute(const at::Tensor& x, const Redistribution& redistribution,
                        const GridGroups& groups, comm::Reason reason);
at::Tensor redistribute(const at::Tensor& x, Redistribution&& redistribution,
                        const GridGroups& groups,
                        comm::Reason reason) = delete;  // forbids temporaries

}  // namespace colossal
