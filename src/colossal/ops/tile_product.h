// Products of bf16 matrices on a CPU with matrix tiles (Intel AMX), for few rows or for numbers of
// rows that change from call to call. tile_product() is a dispatcher operator, with an
// implementation for meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns whether tile_product() supports to [m, n] <- a [m, k] b [k, n]. It does if all three are
// bf16, a is on the CPU or on meta, this machine's CPU has tiles, m > 0, `to` is dense along n, and
// either
// - a is dense along k, b is dense along k or n, and k and n are multiples of 32; or
// - a is dense along m, b is dense along n, and m and n are multiples of 32. This is the form of a
//   weight gradient.
bool supports_tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// Returns whether tile_product() supports the product and is faster than LibTorch: if m is at most
// 128 or, in the form of a weight gradient, if k is at most 2,048.
bool is_faster_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// to <- a b + bias or, with `add`, to += a b, for products whose m (in the form of a weight
// gradient, k) changes from call to call. LibTorch's oneDNN would compile a kernel for each size,
// and keep a thousand of them. So if is_faster_in_tiles() is false, LibTorch computes the product
// for the largest multiple of 128 rows of a (columns, for a weight gradient), and tile_product()
// the rest. Requires supports_tile_product(). bias: [n]; undefined: none. Throws InternalError for
// a bias with `add`.
void dynamic_rows_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                          const at::Tensor& bias, bool add);

// to <- a b, rounded once; with `add`, to <- to + a b. Not differentiable. An element's bits depend
// neither on the number of rows nor on the number of threads. Throws InternalError if
// supports_tile_product() is false because of the operands' sizes or strides.
void tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add);

}  // namespace colossal::ops
