// Passes over flat parameter memory: the AdamW update, and the operations on gradients that precede
// it.
//
// All tensors are one-dimensional, contiguous, in fp64, fp32 or bf16, and of equal length if a
// function accepts several. Results do not depend on the number of threads, on timing, or on the
// CPU. For meta tensors nothing is read: sums are 0 and all_finite() is true.
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
  double gradient_scale = 1;  // factor on the gradient (mean over tokens, clipping)
  int64_t update = 1;         // number of this update, counted from 1
};

// One update, as by torch.optim.AdamW (decoupled weight decay: I. Loshchilov, F. Hutter, ICLR
// 2019), in one pass over memory, computed in the master's type.
//   master    fp64 or fp32; updated
//   working   the weights that the model computes with; set to the rounded master. Undefined: the
//             model computes with the master
//   moments   updated; of any type
//   gradient  of any type
void adamw(const at::Tensor& master, const at::Tensor& working, const at::Tensor& first_moment,
           const at::Tensor& second_moment, const at::Tensor& gradient,
           const AdamWScalars& scalars);

// to += from, added in fp32 (in fp64 if either tensor is fp64).
void accumulate(const at::Tensor& to, const at::Tensor& from);

// to <- scale * from, converted to to's type. On a CPU with one thread `to` may start at the
// address of `from`, if its type is the same or narrower.
void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale = 1);

// Returns the sum of squares in fp64; the order of summation depends only on the length.
double squared_norm(const at::Tensor& values);

// Returns false if an element is infinite or NaN.
bool all_finite(const at::Tensor& values);

}  // namespace colossal::ops
