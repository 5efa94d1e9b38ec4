// Broadcasts, gathers and scatters of torch.distributed over a comm::Group, of dense tensors of any
// type. Lists have a tensor for each rank, in rank order, whose sizes may differ. All functions are
// collective, and throw what the functions of comm/group.h throw.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/comm/group.h"
#include "colossal/python/flat_tensors.h"

namespace colossal::python {

// tensor <- the tensor of rank `root`. tensor: contiguous and flat.
void broadcast(const at::Tensor& tensor, int root, const comm::Group& group);

// outputs <- the inputs of all ranks.
void all_gather(const Tensors& outputs, const at::Tensor& input, const comm::Group& group);
// output <- the inputs of all ranks, one after the other, which have equal sizes. `input` may be
// this rank's part of `output`.
void all_gather(const at::Tensor& output, const at::Tensor& input, const comm::Group& group);

// On rank `root`: outputs <- the inputs of all ranks. On other ranks, `outputs` is empty.
void gather(const Tensors& outputs, const at::Tensor& input, int root, const comm::Group& group);

// output <- this rank's tensor of the `inputs` of rank `root`, which are empty on other ranks.
void scatter(const at::Tensor& output, const Tensors& inputs, int root, const comm::Group& group);

}  // namespace colossal::python
