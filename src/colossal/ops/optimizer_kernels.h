// Operators on flat buffers of parameters and gradients: the AdamW update, and the sums,
// conversions and checks of gradients before it.
//
// All tensors must be one-dimensional, contiguous, and in fp64, fp32 or bf16; the tensors of one
// call must have equal lengths. The functions throw InternalError for other shapes and lengths, and
// on the CPU also for other dtypes. On the CPU, results are bit-identical for any number of threads
// and for any CPU. On meta, all_finite() returns true.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

// Hyperparameters of one AdamW update.
struct AdamWScalars {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // factor of the gradient, for the mean over tokens and for clipping
  int64_t update = 1;         // number of this update of the elements, counted from 1
};

// Makes one AdamW update in one pass over memory, as torch.optim.AdamW does (decoupled weight
// decay: I. Loshchilov, F. Hutter, ICLR 2019). Computes in the type of `master`.
//   master         the weights in fp64 or fp32; overwritten
//   working        the weights that the model's products use; set to the new master weights,
//                  rounded. Undefined: the model uses the master weights
//   first_moment, second_moment  AdamW's state, both of one type; overwritten
//   gradient       read only
void adamw(const at::Tensor& master, const at::Tensor& working, const at::Tensor& first_moment,
           const at::Tensor& second_moment, const at::Tensor& gradient,
           const AdamWScalars& scalars);

// Computes to <- to + from. Adds in fp32, or in fp64 if one of the tensors is fp64.
void accumulate(const at::Tensor& to, const at::Tensor& from);

// Computes to <- scale * from, converted to the type of `to`. The two tensors must not overlap. One
// exception: they may begin at the same address if they are on the CPU, at::get_num_threads() is 1,
// and the type of `to` is not wider than that of `from`.
void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale = 1);

// Returns the sum of squares, a scalar in fp64 on the device of `values`.
at::Tensor squared_norm(const at::Tensor& values);

// Returns whether no element is infinite or NaN.
bool all_finite(const at::Tensor& values);

}  // namespace colossal::ops
