// Moves a tensor from one layout to another. Differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/layout/grid_groups.h"
#include "colossal/layout/redistribution.h"

namespace colossal {

// The plan from one layout to another, and the plan of the gradient, which goes from to.conjugate()
// to from.conjugate().
struct Redistribution {
  Redistribution(const Layout& from, const Layout& to)
      : forward(from, to), backward(to.conjugate(), from.conjugate()) {}

  RedistributionPlan forward;
  RedistributionPlan backward;
};

// x: this rank's local tensor in the layout redistribution.forward.from(). Returns this rank's
// local tensor in the layout redistribution.forward.to(); x itself if the plan has no steps.
// Collective over the grid, in the forward and in the backward pass. `redistribution` and `groups`
// must outlive the backward pass. reason: under which the ledger counts the bytes sent; a dry run
// records the same calls, with tensors on meta. Throws InternalError if x does not have the shape
// that forward.from() gives this rank, or if the plan and `groups` have different grids.
at::Tensor redistribute(const at::Tensor& x, const Redistribution& redistribution,
                        const GridGroups& groups, comm::Reason reason);
at::Tensor redistribute(const at::Tensor& x, Redistribution&& redistribution,
                        const GridGroups& groups,
                        comm::Reason reason) = delete;  // forbids temporaries

}  // namespace colossal
