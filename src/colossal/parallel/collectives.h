// Collectives on activations, with their gradients. Booked as Reason::tensor. A group must outlive
// the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"

namespace colossal::parallel {

// Sum over ranks; its gradient is the same on all of them and passes as it is (Megatron-LM's g).
at::Tensor sum_forward(const at::Tensor& x, const comm::Group& group);

// x itself; its gradient is summed over ranks (Megatron-LM's f).
at::Tensor sum_backward(const at::Tensor& x, const comm::Group& group);

// The rows of a matrix, shared out among the ranks of a group.
struct RowSharding {
  const comm::Group* group = nullptr;
  int64_t rows = 0;

  Partition partition() const { return {rows, group->size()}; }
  Range here() const { return partition().range(group->rank()); }
};

// This rank's rows -> all rows; the gradient of all rows is summed over ranks (reduce-scatter).
at::Tensor gather_rows(const at::Tensor& x, const RowSharding& sharding);

// Sum over ranks of all rows -> this rank's rows of it; the gradient's rows are gathered.
at::Tensor sum_to_rows(const at::Tensor& x, const RowSharding& sharding);

// The same without gradients, under way: `result` is ready after work.wait(). They keep what they
// read alive.
struct Pending {
  at::Tensor result;
  at::Tensor source;
  comm::Work work;
  at::Tensor wait() {
    work.wait();
    return result;
  }
};
Pending start_gather_rows(const at::Tensor& x, const RowSharding& sharding);
Pending start_sum_to_rows(const at::Tensor& x, const RowSharding& sharding);
Pending start_sum(const at::Tensor& x, const comm::Group& group);  // in x's own memory

// tensor, flat <- the largest over ranks, element by element; no gradient. Law: an all-reduce's.
void max_over_ranks(const at::Tensor& tensor, const comm::Group& group);

}  // namespace colossal::parallel
