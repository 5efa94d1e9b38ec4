// Products of bf16 matrices on a CPU with matrix tiles (Intel AMX). They are faster than LibTorch's
// for few rows, and for numbers of rows that change from call to call. product.h calls them where
// they are supported. Autograd does not record them.
//
// tile_product() computes a whole product in tiles; dynamic_rows_product() leaves parts of it to
// LibTorch where LibTorch is faster.
//
// All functions compute with a [m, k], b [k, n] and `to` [m, n]. A matrix is "dense" along a dim if
// the stride of this dim is 1 and the stride of the other dim is at least the size of this dim.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns whether tile_product() supports the product. It does if a, b and `to` are bf16, a is on
// the CPU or on meta, this machine's CPU has tiles, m > 0, `to` is dense along n, and the operands
// have one of these two forms:
// - forward form: a is dense along k, b is dense along k or n, and k and n are multiples of 32;
// - weight gradient form: a is dense along m, b is dense along n, and m and n are multiples of 32.
bool supports_tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// Returns whether tile_product() supports the product and is faster than LibTorch. It is faster for
// m <= 128 in the forward form, and for k <= 2048 in the weight gradient form.
bool is_faster_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// Computes to <- a b + bias or, with `add`, to <- to + a b, for products whose number of tokens
// changes from call to call. The number of tokens is m in the forward form, and k in the weight
// gradient form. Requires supports_tile_product(). bias: [n]; undefined: none. Throws InternalError
// for a bias with `add`.
//
// If is_faster_in_tiles() is true, tile_product() computes the whole product. Otherwise LibTorch
// computes the first tokens, up to the last multiple of 128, and tile_product() the remaining ones.
// In the forward form, these are different rows of `to`. In the weight gradient form,
// tile_product() adds the product of the remaining tokens to LibTorch's result. LibTorch adds the
// bias itself. Where only tile_product() computes, the bias is added to its rounded result.
// LibTorch alone would let oneDNN compile a kernel for each number of tokens and keep up to a
// thousand of them.
void dynamic_rows_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                          const at::Tensor& bias, bool add);

// Computes to <- a b or, with `add`, to <- to + a b, accumulated in fp32 and rounded once. An
// element's bits depend neither on the number of rows nor on the number of threads. A dispatcher
// operator with implementations for the CPU and meta. Requires supports_tile_product(a, b, to). On
// the CPU, throws InternalError if sizes or strides have neither of the two forms.
void tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add);

}  // namespace colossal::ops
