// Redistributes a tensor from one layout to another. Differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/layout/grid_groups.h"
#include "colossal/layout/redistribution.h"

namespace colossal {

// The plan from one layout to another, and the plan for the gradient: from to.conjugate() to
// from.conjugate().
struct Redistribution {
  Redistribution(const Layout& from, const Layout& to)
      : forward(from, to), backward(to.conjugate(), from.conjugate()) {}

  RedistributionPlan forward;
  RedistributionPlan backward;
};

// x: this rank's local tensor in the layout forward.from(). Returns its local tensor in the layout
// forward.to(); x itself if the layouts are equal. Collective over the grid. `redistribution` and
// `groups` must outlive the backward pass. For meta tensors and dry groups the same calls are
// recorded in the ledger.
at::Tensor redistribute(const at::Tensor& x, const Redistribution& redistribution,
                        const GridGroups& groups, comm::Reason reason);
at::Tensor redistribute(const at::Tensor& x, Redistribution&& redistribution,
                        const GridGroups& groups,
                        comm::Reason reason) = delete;  // forbids temporaries

}  // namespace colossal
