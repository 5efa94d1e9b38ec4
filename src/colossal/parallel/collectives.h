// Differentiable collectives on activations. The ledger books them as Reason::tensor. Groups must
// outlive the backward pass. Rows are dim 0 and columns dim 1 of a matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"

namespace colossal::parallel {

// Forward: all-reduce. Backward: identity, since the gradient is the same on all ranks
// (Megatron-LM's g).
at::Tensor reduce_from_tensor_parallel(const at::Tensor& x, const comm::Group& group);

// Forward: identity. Backward: all-reduce of the gradient (Megatron-LM's f).
at::Tensor copy_to_tensor_parallel(const at::Tensor& x, const comm::Group& group);

// How a dim is divided among the ranks of a group: the size of each rank's part, in rank order.
struct Shares {
  const comm::Group* group = nullptr;
  std::vector<int64_t> sizes;

  // Divides `total` as evenly as possible.
  static Shares even(const comm::Group& group, int64_t total);

  int64_t total() const;
  int64_t mine() const { return sizes[group->rank()]; }
  Range here() const;
  // Returns the parts' element counts if each index of the dim has `elements` elements.
  std::vector<int64_t> times(int64_t elements) const;
};

// All-gather: this rank's rows -> all rows. Backward: reduce-scatter of the gradients of all ranks.
at::Tensor gather_rows(const at::Tensor& x, const Shares& rows);

// Reduce-scatter: all rows -> this rank's rows of the sum over ranks. Backward: all-gather of the
// gradient.
at::Tensor reduce_scatter_rows(const at::Tensor& x, const Shares& rows);

// Takes this rank's rows of an x that is the same on all ranks, so that each rank computes with a
// share of the rows. Backward: all-gather of the gradient, so that all ranks have the whole
// gradient of x.
at::Tensor take_rows(const at::Tensor& x, const Shares& rows);

// Inverse of take_rows(): this rank's rows -> all rows. Backward: takes this rank's rows of the
// gradient, which must be the same on all ranks.
at::Tensor collect_rows(const at::Tensor& x, const Shares& rows);

// All-gather: [rows, columns on this rank] -> [rows, all columns]. Backward: reduce-scatter of the
// gradient.
at::Tensor gather_columns(const at::Tensor& x, const Shares& columns);

// Reduce-scatter: all columns -> this rank's columns of the sum over ranks. Backward: all-gather of
// the gradient.
at::Tensor sum_to_columns(const at::Tensor& x, const Shares& columns);

// Swaps x between the two ranks of a group: returns the other rank's x, whose shape is `shape`. In
// a group of one rank, returns x. Backward: swaps the gradients.
at::Tensor exchange(const at::Tensor& x, const std::vector<int64_t>& shape,
                    const comm::Group& group);

// A running collective, not differentiable. `result` may be read after wait(). `source` keeps the
// collective's input alive.
struct Pending {
  at::Tensor result;
  at::Tensor source;
  comm::Work work;
  at::Tensor wait() {
    work.wait();
    return result;
  }
};
Pending start_gather_rows(const at::Tensor& x, const Shares& rows);
Pending start_reduce_scatter_rows(const at::Tensor& x, const Shares& rows);
Pending start_sum(const at::Tensor& x, const comm::Group& group);  // sums x in place

// tensor (one-dimensional) <- elementwise maximum over ranks. Not differentiable. Law: the bytes of
// an all-reduce.
void max_over_ranks(const at::Tensor& tensor, const comm::Group& group);

}  // namespace colossal::parallel
