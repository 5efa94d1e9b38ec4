// Products of bf16 matrices in the CPU's tile registers (AMX), accumulated in fp32 and rounded
// once. A product needs operands that are packed for the tiles. tile_product_by_rows() packs only a
// and reads b in place; so it is fast also if a has few rows, where packing b would cost as much as
// the product. tile_product_by_columns() packs only b, tile_product_outer() both. Call these
// functions only if tiles_are_allowed().
#pragma once

#include <cstdint>

namespace colossal::ops::kernels {

// Operands of a product [m, n] with depth k. Strides are from row to row, in elements.
struct TileProduct {
  int64_t m, n, k;
  const uint16_t* a;
  int64_t a_stride;
  const uint16_t* b;
  int64_t b_stride;
  uint16_t* to;  // [m, n], each row contiguous
  int64_t to_stride;
  bool add;  // true: to += the product; false: to = the product
  // Scratch: packed_by_rows(), packed_by_columns() or packed_outer() elements, matching the
  // function called; aligned to 64 bytes.
  uint32_t* packed;
};

// n and k must be multiples of kTileSide, except k in tile_product_outer().
constexpr int64_t kTileSide = 32;

constexpr int64_t padded_to_tiles(int64_t size) {
  return (size + kTileSide - 1) / kTileSide * kTileSide;
}

// a [m, k], b [n, k]: to = a b^T. Computes kTileRows rows of a at a time, which stay in the cache
// while all of b is read.
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

// a [k, m], b [k, n]: to = a^T b. m must be a multiple of kTileSide, too.
constexpr int64_t packed_outer(int64_t m, int64_t n, int64_t k) {
  return padded_to_tiles(k) * (m + n) / 2;
}
void tile_product_outer(const TileProduct& product);

// The first call asks the operating system for permission to use tiles. Returns false if the
// operating system does not support tiles or refuses.
bool tiles_are_allowed();

}  // namespace colossal::ops::kernels
