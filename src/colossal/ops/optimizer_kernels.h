// Operators on flat parameters and gradients: the AdamW update, and what is done with gradients
// before it.
//
// All tensors are one-dimensional, contiguous, and in fp64, fp32 or bf16; the tensors of one call
// have equal lengths. Results are bit-identical for any number of threads and on any CPU. With
// tensors on meta, squared_norm() is 0 and all_finite() is true. All functions throw InternalError
// for other tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

struct AdamWScalars {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // the gradient is multiplied by it (mean over tokens, clipping)
  int64_t update = 1;         // 1 for the first update of these elements, then 2, ...
};

// Makes one update, as torch.optim.AdamW does (decoupled weight decay: I. Loshchilov, F. Hutter,
// ICLR 2019), in one pass over memory. Computes in the master's type.
//   master    fp64 or fp32; updated
//   working   the weights that the model computes with; set to the rounded master. Undefined: the
//             model computes with the master
//   first_moment, second_moment   updated; both of one type
//   gradient  of any type
void adamw(const at::Tensor& master, const at::Tensor& working, const at::Tensor& first_moment,
           const at::Tensor& second_moment, const at::Tensor& gradient,
           const AdamWScalars& scalars);

// to += from, added in fp32 (in fp64 if either tensor is fp64).
void accumulate(const at::Tensor& to, const at::Tensor& from);

// to <- scale * from, converted to the type of `to`. On the CPU with one thread, `to` may begin at
// the same address as `from` if its type is not wider.
void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale = 1);

// Returns the sum of squares, computed in fp64.
double squared_norm(const at::Tensor& values);

// Returns whether no element is infinite or NaN.
bool all_finite(const at::Tensor& values);

}  // namespace colossal::ops
