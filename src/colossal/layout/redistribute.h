// Redistribution of a live tensor, with its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/layout/grid_groups.h"
#include "colossal/layout/redistribution.h"

namespace colossal {

// The plan from one layout to another, and the plan of the gradient's way back: from to.conjugate()
// to from.conjugate().
struct Redistribution {
  Redistribution(const Layout& from, const Layout& to)
      : forward(from, to), backward(to.conjugate(), from.conjugate()) {}

  RedistributionPlan forward;
  RedistributionPlan backward;
};

// x: this rank's part in the layout forward.from() -> its part in the layout forward.to(); x itself
// where they are equal. Collective over the grid. `redistribution` and `groups` must outlive the
// backward pass. On meta tensors and dry groups the same calls are booked.
at::Tensor redistribute(const at::Tensor& x, const Redistribution& redistribution,
                        const GridGroups& groups, comm::Reason reason);
at::Tensor redistribute(const at::Tensor& x, Redistribution&& redistribution,
                        const GridGroups& groups, comm::Reason reason) = delete;  // a temporary

}  // namespace colossal
