// Products of bf16 matrices on a CPU with matrix tiles (Intel's AMX), for few rows or for numbers
// of rows that change: the larger operand is read as it lies, where LibTorch repacks it each time.
// Operator, with a rule for meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Whether to [m, n] <- a [m, k] b [k, n] is one of these products: bf16 on a CPU with tiles (on
// meta: as on this machine's), to dense along n, and
// - a dense along k, b along k or n, k and n multiples of 32; or
// - a dense along m, b along n, m and n multiples of 32: weight gradients.
bool fits_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// Whether it is, and faster so than by LibTorch: of at most 128 rows, or a depth of at most 256
// where it is a weight's gradient. Where numbers of rows change all the time, it is faster so for
// any number: oneDNN compiles a kernel for each, and keeps a thousand of them.
bool is_faster_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// to <- a b, rounded once, or with `add` to + a b. Without gradients. The same bits for any number
// of rows and threads.
void tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add);

}  // namespace colossal::ops
