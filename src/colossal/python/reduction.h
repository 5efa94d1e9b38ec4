// The reductions of torch.distributed over a comm::Group: sums, means, products, minima, maxima and
// bitwise operations of tensors of any type, for which comm:: has sums of some types only.
//
// Terms are combined in rank order, so all ranks and all runs get the same bits. Sums of bf16 and
// fp16 are made in fp32 and rounded once; so are their means. Means of integers are rounded towards
// zero. Sums of bool are "or", products "and".
//
// Tensors are contiguous and flat. All functions are collective, and throw what the functions of
// comm/group.h throw.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "colossal/comm/group.h"

namespace colossal::python {

using ReduceOperation = c10d::ReduceOp::RedOpType;

// Under which the ledger of the process group's world counts all its bytes.
constexpr comm::Reason kReason = comm::Reason::data;

// Throws ConfigError if tensors of `type` cannot be reduced with `operation`.
void check_reduction(ReduceOperation operation, at::ScalarType type);

// tensor <- the reduction of all ranks' tensors. Sends what comm::all_reduce() sends.
void all_reduce(const at::Tensor& tensor, ReduceOperation operation, const comm::Group& group);

// part [counts[rank]] <- this rank's part of the reduction of all ranks' `full` [sum of counts].
// `part` may be the view of this rank's part in `full`. Sends what comm::reduce_scatter() sends.
void reduce_scatter(const at::Tensor& full, const at::Tensor& part, std::span<const int64_t> counts,
                    ReduceOperation operation, const comm::Group& group);

// On rank `root`: tensor <- the reduction of all ranks' tensors. Other ranks' tensors stay. Sends
// what comm::reduce_scatter() sends, and each rank but the root its part to the root.
void reduce(const at::Tensor& tensor, int root, ReduceOperation operation,
            const comm::Group& group);

}  // namespace colossal::python
