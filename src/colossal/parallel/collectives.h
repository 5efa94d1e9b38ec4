// Differentiable collectives on activations, from which tensor-parallel layers are built. All ranks
// of the group must call them in the same order. The ledger counts their bytes under
// Reason::tensor, or Shares::reason. Groups must outlive the backward pass. Activations are
// matrices: rows are dim 0 (tokens), columns are dim 1 (features).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"

namespace colossal::parallel {

// Returns the sum of x over the ranks (all-reduce). x may have any shape. Backward: identity; the
// gradient must be the same on all ranks (Megatron-LM's operator g).
at::Tensor reduce_from_tensor_parallel(const at::Tensor& x, const comm::Group& group);

// Returns x, which is the same on all ranks. x may have any shape. Backward: sums the gradient over
// the ranks (all-reduce; Megatron-LM's operator f).
at::Tensor copy_to_tensor_parallel(const at::Tensor& x, const comm::Group& group);

// How the indices of a dim are divided among the ranks of a group. Each rank has consecutive
// indices, in rank order.
struct Shares {
  const comm::Group* group = nullptr;          // must be set
  std::vector<int64_t> sizes;                  // number of indices of each rank
  comm::Reason reason = comm::Reason::tensor;  // under which the ledger counts the bytes

  // Divides `total` indices as evenly as possible.
  static Shares even(const comm::Group& group, int64_t total);

  int64_t total() const;                                 // number of indices of all ranks
  int64_t mine() const { return sizes[group->rank()]; }  // number of indices of this rank
  Range here() const;                                    // indices of this rank
  // Returns the number of elements of each rank if each index of the dim has `elements` elements.
  std::vector<int64_t> times(int64_t elements) const;
};

// Returns the rows of all ranks (all-gather). x: this rank's rows. Backward: sums the gradients of
// all ranks and returns this rank's rows of the sum (reduce-scatter).
at::Tensor gather_rows(const at::Tensor& x, const Shares& rows);

// Sums x [all rows, columns] over the ranks and returns this rank's rows of the sum
// (reduce-scatter). Backward: returns the gradients of all rows (all-gather).
at::Tensor reduce_scatter_rows(const at::Tensor& x, const Shares& rows);

// Returns this rank's rows of x [all rows, columns], which is the same on all ranks. No
// communication. Backward: returns the gradients of all rows (all-gather), so that every rank has
// the whole gradient of x.
at::Tensor take_rows(const at::Tensor& x, const Shares& rows);

// Returns the rows of all ranks (all-gather), the inverse of take_rows(). x: this rank's rows.
// Backward: returns this rank's rows of the gradient, which must be the same on all ranks; no
// communication.
at::Tensor collect_rows(const at::Tensor& x, const Shares& rows);

// Returns [rows, columns of all ranks] (all-gather). x: [rows, columns on this rank]. Backward:
// sums the gradients of all ranks and returns this rank's columns of the sum (reduce-scatter).
at::Tensor gather_columns(const at::Tensor& x, const Shares& columns);

// Sums x [rows, all columns] over the ranks and returns this rank's columns of the sum
// (reduce-scatter). Backward: returns the gradients of all columns (all-gather).
at::Tensor sum_to_columns(const at::Tensor& x, const Shares& columns);

// Swaps x between the two ranks of a group. Returns the x of the other rank; shape: its shape. In a
// group of one rank, returns x. Backward: swaps the gradients.
at::Tensor exchange(const at::Tensor& x, const std::vector<int64_t>& shape,
                    const comm::Group& group);

// A collective that has been started.
struct Pending {
  at::Tensor result;  // may be read after wait()
  at::Tensor source;  // the collective's input, kept alive until it ends
  comm::Work work;
  // Waits until the collective has ended and returns `result`.
  at::Tensor wait() {
    work.wait();
    return result;
  }
};
// Start the collectives of gather_rows() and reduce_scatter_rows(). Not differentiable.
Pending start_gather_rows(const at::Tensor& x, const Shares& rows);
Pending start_reduce_scatter_rows(const at::Tensor& x, const Shares& rows);
// Starts to sum x (contiguous, of any shape) over the ranks, in place. Not differentiable.
Pending start_sum(const at::Tensor& x, const comm::Group& group);

// Replaces each element of `tensor` (one-dimensional) by its maximum over the ranks. Not
// differentiable. Law: sends the bytes of an all-reduce.
void max_over_ranks(const at::Tensor& tensor, const comm::Group& group);

}  // namespace colossal::parallel
