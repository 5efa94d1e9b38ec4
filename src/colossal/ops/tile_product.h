// Products of bf16 matrices of few rows on a CPU with matrix tiles (Intel's AMX): the larger
// operand is read as it lies, where LibTorch repacks it each time. Operator, with a rule for meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Whether to [m, n] <- a [m, k] b [k, n] is one of these products, and faster so than by LibTorch:
// bf16 on a CPU with tiles (on meta: as on this machine's), to dense along n, and
// - a dense along k, b along k or n, at most 128 rows, k and n multiples of 32; or
// - a dense along m, b along n, k at most 256, m and n multiples of 32: weight gradients.
bool is_faster_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to);

// to <- a b, rounded once, or with `add` to + a b. Without gradients. The same bits for any number
// of rows and threads.
void tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add);

}  // namespace colossal::ops
