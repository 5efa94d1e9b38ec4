// Products of bf16 matrices on a CPU with matrix tiles (Intel AMX), for few rows or for changing
// numbers of rows: the larger operand is read in place, where LibTorch repacks it for each product.
// A dispatcher operator, with an implementation for meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns whether tile_product() supports to [m, n] <- a [m, k] b [k, n]. Requires bf16 on a CPU
// with tiles (for meta: this machine's CPU), `to` dense along n, and either
// - a dense along k, b dense along k or n, k and n multiples of 32; or
// - a dense along m, b dense along n, m and n multiples of 32: weight gradients.
bool fits_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// Returns whether tile_product() supports the product and is faster than LibTorch: with at most 128
// rows or, for a weight gradient, with a depth k of at most 2,048.
bool is_faster_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// Computes to <- a b + bias, or with `add` to += a b, when the number of rows changes from batch to
// batch. oneDNN compiles a kernel for each number of rows and caches a thousand of them. So
// LibTorch multiplies a multiple of 128 rows (for a weight gradient, of the depth), and
// tile_product() the rest. Requires fits_tiles(). bias: [n]; undefined: none; must be undefined
// with `add`.
void dynamic_rows_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                          const at::Tensor& bias, bool add);

// to <- a b, rounded once; with `add` to <- to + a b. Not differentiable. Bit-identical for any
// number of rows and threads. Throws InternalError if fits_tiles() does not hold for the layouts.
void tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add);

}  // namespace colossal::ops
