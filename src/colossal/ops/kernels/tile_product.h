// Products of bf16 matrices in the CPU's tiles (AMX), accumulated in fp32 and rounded once. The
// larger operand is read in place, so the products are fast for few rows too, where repacking the
// larger operand would cost as much as the product.
#pragma once

#include <cstdint>

namespace colossal::ops::kernels {

// Operands of a product [m, n] with depth k. Strides are between rows, in elements.
struct TileProduct {
  int64_t m, n, k;
  const uint16_t* a;
  int64_t a_stride;
  const uint16_t* b;
  int64_t b_stride;
  uint16_t* to;  // [m, n], dense along n
  int64_t to_stride;
  bool add;          // to += the product
  uint32_t* packed;  // scratch, of the size that packed_.. returns for the function
};

constexpr int64_t kTileSide = 32;  // n and k must be multiples of kTileSide, except k in outer()

constexpr int64_t padded_to_tiles(int64_t size) {
  return (size + kTileSide - 1) / kTileSide * kTileSide;
}

// a [m, k], b [n, k]: to = a b^T, for kTileRows rows of a at a time, which stay in the cache while
// all of b is read.
constexpr int64_t kTileRows = 64;
constexpr int64_t packed_by_rows(int64_t m, int64_t k) {
  return (m < kTileRows ? padded_to_tiles(m) : kTileRows) * k / 2;
}
void tile_product_by_rows(const TileProduct& product);

// a [m, k], b [k, n]: to = a b.
constexpr int64_t kTilePanel = 128;  // columns of b that are packed at a time
constexpr int64_t packed_by_columns(int64_t k) {
  return k * kTilePanel / 2 + kTileSide * k / 2;
}
void tile_product_by_columns(const TileProduct& product);

// a [k, m], b [k, n]: to = a^T b, as a sum of outer products. m too must be a multiple of
// kTileSide.
constexpr int64_t packed_outer(int64_t m, int64_t n, int64_t k) {
  return padded_to_tiles(k) * (m + n) / 2;
}
void tile_product_outer(const TileProduct& product);

// Requests permission to use tiles from the operating system, once. Returns false if it has none or
// refuses.
bool tiles_are_allowed();

}  // namespace colossal::ops::kernels
