// Passes over flat parameter memory: the AdamW update, and the work on gradients before it.
//
// All tensors are one-dimensional and contiguous, of fp64, fp32 or bf16, and of equal length where
// several are given. Results do not depend on the number of threads, on timing, or on the CPU. On
// meta tensors nothing is read: sums are 0 and everything is finite.
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
  double gradient_scale = 1;  // factor on the gradient: mean over tokens, clipping
  int64_t update = 1;         // number of this update, from 1
};

// One update as torch.optim.AdamW does it (decoupled weight decay: I. Loshchilov, F. Hutter, ICLR
// 2019), in one pass and in the master's type.
//   master    fp64 or fp32; updated
//   working   what the model computes with: set to the master, rounded; undefined: it is the master
//   moments   updated; of any type
//   gradient  of any type
void adamw(const at::Tensor& master, const at::Tensor& working, const at::Tensor& first_moment,
           const at::Tensor& second_moment, const at::Tensor& gradient,
           const AdamWScalars& scalars);

// to += from, added in fp32 (fp64 where one of them is).
void accumulate(const at::Tensor& to, const at::Tensor& from);

// to <- scale * from, in to's type. With one thread on a CPU `to` may lie where `from` begins, of
// the same type or a narrower one.
void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale = 1);

// Sum of squares in fp64, in an order that depends on the length alone.
double squared_norm(const at::Tensor& values);

// False if an element is infinite or not a number.
bool all_finite(const at::Tensor& values);

}  // namespace colossal::ops
