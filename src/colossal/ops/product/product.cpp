#include "colossal/ops/product/product.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "colossal/base/cpu_features.h"
#include "colossal/ops/product/bf16_block.h"
#include "colossal/ops/product/bf16_product.h"
#include "colossal/ops/product/libtorch_product.h"
#include "colossal/ops/product/tile_product.h"

namespace colossal::ops {
namespace {

// Minimum number of rows for rounded_product(): it repacks b, which costs as much as the product of
// b with some tens of rows.
constexpr int64_t kLeastTiledRows = 128;

// Returns whether rounded_product() is faster than LibTorch. CPUs with AMX use LibTorch's blocks.
bool is_faster_in_blocks(const at::Tensor& a) {
  return (a.is_cpu() || a.is_meta()) && a.scalar_type() == at::kBFloat16 &&
         a.size(0) >= kLeastTiledRows && bf16_block_product() && !has_amx_bf16();
}

// Returns whether a product goes to dynamic_rows_product(). Weight gradients (a is dense along m)
// do not if they have many tokens and as many as LibTorch gets from it anyway: LibTorch is then
// faster, and compiles no further kernel.
bool goes_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to) {
  constexpr int64_t kManyTokens = 512, kTokensForLibtorch = 128;
  const bool is_weight_gradient = a.stride(1) != 1;
  const int64_t tokens = a.size(1);
  if (is_weight_gradient && tokens > kManyTokens && tokens % kTokensForLibtorch == 0) return false;
  return supports_tile_product(a, b, to);
}

}  // namespace

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  product_out(result, a, b, bias);
  return result;
}

void product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  if (goes_in_tiles(a, b, to)) {
    dynamic_rows_product(a, b, to, bias, /*add=*/false);
  } else if (is_faster_in_blocks(a)) {
    rounded_product(a, b, to, bias);
  } else {
    libtorch_product_out(to, a, b, bias);
  }
}

void add_matrix_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b) {
  if (goes_in_tiles(a, b, sum)) {
    dynamic_rows_product(a, b, sum, /*bias=*/{}, /*add=*/true);
  } else if (sum.scalar_type() == a.scalar_type()) {
    add_libtorch_product(sum, a, b);
  } else if (sum.is_contiguous() && (sum.is_cpu() || sum.is_meta())) {
    summed_product(a, b, sum, /*add=*/true);
  } else if (sum.is_cuda()) {
    add_libtorch_product(sum, a, b);
  } else {
    // add_() would convert, too, but on meta it would not allocate the converted tensor, so a dry
    // run would count too little memory.
    sum.add_(at::mm(a, b).to(sum.scalar_type()));
  }
}

}  // namespace colossal::ops
