// A rank's part of a tensor that one rank alone has, cut without the help of the code under test.
#pragma once

#include <ATen/ops/cat.h>

#include <vector>

#include "colossal/layout/layout.h"

namespace colossal::test {

// The indices that a rank holds, dim by dim, of the whole tensor.
inline at::Tensor piece_of(at::Tensor whole, const Layout& layout, int rank) {
  for (int dim = 0; dim < layout.num_dims(); ++dim) {
    std::vector<at::Tensor> runs{whole.narrow(dim, 0, 0)};
    for (const Range& run : layout.held(rank, dim)) {
      runs.push_back(whole.narrow(dim, run.begin, run.size()));
    }
    whole = at::cat(runs, dim);
  }
  return whole;
}

}  // namespace colossal::test
