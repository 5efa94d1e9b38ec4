// Collectives on activations, with their gradients. Booked as Reason::tensor. A group must outlive
// the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"

namespace colossal::parallel {

// Sum over ranks; its gradient is the same on all of them and passes as it is (Megatron-LM's g).
at::Tensor reduce_from_tensor_parallel(const at::Tensor& x, const comm::Group& group);

// x itself; its gradient is summed over ranks (Megatron-LM's f).
at::Tensor copy_to_tensor_parallel(const at::Tensor& x, const comm::Group& group);

// A dim shared out among the ranks of a group: sizes of their parts, in rank order.
struct Shares {
  const comm::Group* group = nullptr;
  std::vector<int64_t> sizes;

  // Divides as evenly as possible.
  static Shares even(const comm::Group& group, int64_t total);

  int64_t total() const;
  int64_t mine() const { return sizes[group->rank()]; }
  Range here() const;
  // Returns the elements of the parts if each index of the dim has `elements`.
  std::vector<int64_t> times(int64_t elements) const;
};

// This rank's rows -> all rows; the gradient of all rows is summed over ranks (reduce-scatter).
at::Tensor gather_rows(const at::Tensor& x, const Shares& rows);

// Sum over ranks of all rows -> this rank's rows of it; the gradient's rows are gathered.
at::Tensor reduce_scatter_rows(const at::Tensor& x, const Shares& rows);

// x, the same on all ranks -> this rank's rows of it. The gradients of rows are gathered, so that x
// has the whole gradient on all ranks. It divides work among ranks that all have x.
at::Tensor take_rows(const at::Tensor& x, const Shares& rows);

// The way back: this rank's rows -> all rows. The gradient of all rows is the same on all ranks;
// this rank's rows of it pass.
at::Tensor collect_rows(const at::Tensor& x, const Shares& rows);

// [rows, columns here] -> [rows, all columns]; the gradient of all columns is summed over ranks.
at::Tensor gather_columns(const at::Tensor& x, const Shares& columns);

// Sum over ranks of all columns -> this rank's columns of it; the gradient's columns are gathered.
at::Tensor sum_to_columns(const at::Tensor& x, const Shares& columns);

// Returns the other rank's x in a group of two, of shape `shape` (in a group of one x itself). The
// gradient goes back.
at::Tensor exchange(const at::Tensor& x, const std::vector<int64_t>& shape,
                    const comm::Group& group);

// A collective under way, without gradients: `result` is ready after work.wait(). It keeps alive
// what it reads.
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
Pending start_sum(const at::Tensor& x, const comm::Group& group);  // in x's own memory

// tensor, flat <- the largest over ranks, element by element; no gradient. Law: an all-reduce's.
void max_over_ranks(const at::Tensor& tensor, const comm::Group& group);

}  // namespace colossal::parallel
