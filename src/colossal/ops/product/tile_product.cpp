#include "colossal/ops/product/tile_product.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "colossal/base/cpu_features.h"
#include "colossal/base/error.h"
#include "colossal/base/range.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/kernels/tile_product.h"
#include "colossal/ops/parallel_for.h"
#include "colossal/ops/product/libtorch_product.h"

namespace colossal::ops {
namespace {

using kernels::kTileSide;
using kernels::TileProduct;

constexpr int64_t kMostTileRows = 128;    // tiles are faster for m up to this, in forward form
constexpr int64_t kMostTileDepth = 2048;  // tiles are faster for k up to this, for weight gradients
constexpr int64_t kRowsOfOthers = 128;    // LibTorch gets multiples of this number of tokens
constexpr int64_t kLineNumbers = 16;      // elements of 32 bits in a cache line

enum class Form { none, by_rows, by_columns, outer };

bool is_dense_along(const at::Tensor& x, int64_t dim) {
  return x.stride(dim) == 1 && x.stride(1 - dim) >= x.size(dim);
}

bool has_tiles() {
#if defined(__x86_64__)
  static const bool has = has_avx512_bf16() && has_amx_bf16() && kernels::tiles_are_allowed();
  return has;
#else
  return false;
#endif
}

Form form_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  if (m == 0 || n % kTileSide != 0 || !is_dense_along(to, 1)) return Form::none;
  if (is_dense_along(a, 1) && k % kTileSide == 0) {
    if (is_dense_along(b, 1)) return Form::by_columns;
    if (is_dense_along(b, 0)) return Form::by_rows;
  }
  const bool is_outer = is_dense_along(a, 0) && is_dense_along(b, 1);
  return is_outer && m % kTileSide == 0 ? Form::outer : Form::none;
}

int64_t packed_of(Form form, int64_t m, int64_t n, int64_t k) {
  switch (form) {
    case Form::by_rows:
      return kernels::packed_by_rows(m, k);
    case Form::by_columns:
      return kernels::packed_by_columns(k);
    case Form::outer:
      return kernels::packed_outer(m, n, k);
    case Form::none:
      break;
  }
  return 0;
}

// Allocates memory for packed operands: one row per thread, with room for aligned().
at::Tensor packed_memory(Form form, const at::Tensor& a, const at::Tensor& b, int64_t threads) {
  const int64_t of_thread = packed_of(form, a.size(0), b.size(1), a.size(1));
  return at::empty({threads, of_thread + kLineNumbers}, a.options().dtype(at::kInt));
}

void multiply(Form form, const TileProduct& product) {
#if defined(__x86_64__)
  switch (form) {
    case Form::by_rows:
      return kernels::tile_product_by_rows(product);
    case Form::by_columns:
      return kernels::tile_product_by_columns(product);
    case Form::outer:
      return kernels::tile_product_outer(product);
    case Form::none:
      break;
  }
#endif
}

const uint16_t* numbers(const at::Tensor& x) {
  return static_cast<const uint16_t*>(x.const_data_ptr());
}

int64_t row_stride(const at::Tensor& x) {
  return x.stride(1) == 1 ? x.stride(0) : x.stride(1);
}

uint32_t* aligned(const at::Tensor& memory, int64_t thread) {
  auto* const begin = static_cast<uint32_t*>(memory.select(0, thread).mutable_data_ptr());
  const auto address = reinterpret_cast<uintptr_t>(begin);
  return begin + (64 - address % 64) % 64 / sizeof(uint32_t);
}

// Each thread computes some rows of the result in the weight gradient form, otherwise some columns.
void tile_product_cpu(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add) {
  const Form form = form_of(a, b, to);
  COLOSSAL_CHECK(form != Form::none, "no product in tiles: [{}, {}] by [{}, {}]", a.size(0),
                 a.size(1), b.size(0), b.size(1));
  const int64_t threads = at::get_num_threads();
  const at::Tensor memory = packed_memory(form, a, b, threads);
  const bool by_rows = form == Form::outer;
  const int64_t tiles = (by_rows ? a.size(0) : b.size(1)) / kTileSide;
  parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      const Range part{tiles * thread / threads * kTileSide,
                       tiles * (thread + 1) / threads * kTileSide};
      if (part.empty()) continue;
      const at::Tensor left = by_rows ? a.narrow(0, part.begin, part.size()) : a;
      const at::Tensor right = by_rows ? b : b.narrow(1, part.begin, part.size());
      const at::Tensor result = to.narrow(by_rows ? 0 : 1, part.begin, part.size());
      multiply(form, {.m = left.size(0),
                      .n = right.size(1),
                      .k = a.size(1),
                      .a = numbers(left),
                      .a_stride = row_stride(left),
                      .b = numbers(right),
                      .b_stride = row_stride(right),
                      .to = static_cast<uint16_t*>(result.mutable_data_ptr()),
                      .to_stride = result.stride(0),
                      .add = add,
                      .packed = aligned(memory, thread)});
    }
  });
}

void tile_product_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool) {
  packed_memory(form_of(a, b, to), a, b, at::get_num_threads());
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("tile_product(Tensor a, Tensor b, Tensor(a!) to, bool add) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("tile_product", tile_product_cpu);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("tile_product", tile_product_meta);
}

}  // namespace

bool supports_tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to) {
  return (a.is_cpu() || a.is_meta()) && a.scalar_type() == at::kBFloat16 &&
         b.scalar_type() == at::kBFloat16 && to.scalar_type() == at::kBFloat16 && has_tiles() &&
         form_of(a, b, to) != Form::none;
}

bool is_faster_in_tiles(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to) {
  if (!supports_tile_product(a, b, to)) return false;
  return form_of(a, b, to) == Form::outer ? a.size(1) <= kMostTileDepth
                                          : a.size(0) <= kMostTileRows;
}

void dynamic_rows_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                          const at::Tensor& bias, bool add) {
  COLOSSAL_CHECK(!add || !bias.defined(), "a bias for a product that is added to another");
  // Of a weight gradient, the second part is added to the first, which has the bias.
  const auto in_tiles = [&](const at::Tensor& left, const at::Tensor& right, at::Tensor result,
                            bool added) {
    tile_product(left, right, result, added);
    if (bias.defined() && !added) result.add_(bias);
  };
  if (is_faster_in_tiles(a, b, to)) return in_tiles(a, b, to, add);
  const bool outer = form_of(a, b, to) == Form::outer;
  const int64_t all = a.size(outer ? 1 : 0), whole = all / kRowsOfOthers * kRowsOfOthers;
  const auto part = [&](const at::Tensor& x, int64_t dim, int64_t begin, int64_t end) {
    return x.narrow(dim, begin, end - begin);
  };
  const auto multiply_part = [&](int64_t begin, int64_t end, const auto& how) {
    if (begin == end) return;
    if (outer) {
      how(part(a, 1, begin, end), part(b, 0, begin, end), to, add || begin > 0);
    } else {
      how(part(a, 0, begin, end), b, part(to, 0, begin, end), add);
    }
  };
  multiply_part(
      0, whole,
      [&](const at::Tensor& left, const at::Tensor& right, at::Tensor result, bool added) {
        if (added) {
          add_libtorch_product(result, left, right);
        } else {
          libtorch_product_out(result, left, right, bias);
        }
      });
  multiply_part(whole, all, in_tiles);
}

void tile_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, bool add) {
  static const auto op = find_operator<decltype(tile_product_cpu)>("colossal::tile_product");
  op.call(a, b, to, add);
}

}  // namespace colossal::ops
