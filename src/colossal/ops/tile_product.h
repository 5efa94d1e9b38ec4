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

// Whether it is, and faster so than by LibTorch: of at most 128 rows, or a depth of at most 2,048
// where it is a weight's gradient.
bool is_faster_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// The same product where numbers of rows change from batch to batch. oneDNN compiles a kernel for
// each number and keeps a thousand of them; so LibTorch multiplies a multiple of 128 rows (or of
// that depth, of a weight's gradient), and tiles the others. fits_tiles() must hold.
// bias [n]: undefined for none; not with `add`.
void product_of_changing_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                              const at::Tensor& bias, bool add);

// to <- a b, rounded once, or with `add` to + a b. Without gradients. The same bits for any number
// of rows and threads.
void tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add);

}  // namespace colossal::ops
