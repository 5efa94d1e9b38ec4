// Kernels of ops/product/tile_product.h: products of two bf16 matrices, a (or its transpose) on the
// left and b (or its transpose) on the right, in the CPU's tile registers (Intel AMX), accumulated
// in fp32 and rounded once. Call them only if has_avx512_bf16(), has_amx_bf16()
// (base/cpu_features.h) and tiles_are_allowed() all return true.
//
// The tiles need at least one operand in a packed order. tile_product_by_rows() packs only a and
// reads b in place, so it is fast even if a has few rows: packing b would then cost as much as the
// product. tile_product_by_columns() packs only b, and reads a in place, except for the last m %
// kTileSide rows, which it copies. tile_product_outer() packs both.
#pragma once

#include <cstdint>

namespace colossal::ops::kernels {

// The operands of a product `to` [m, n] with depth k; each function below says the shapes of a and
// b. Pointers are to the bits of bf16 numbers. Rows are contiguous; strides are distances between
// rows, in elements.
struct TileProduct {
  int64_t m, n, k;
  const uint16_t* a;
  int64_t a_stride;
  const uint16_t* b;
  int64_t b_stride;
  uint16_t* to;
  int64_t to_stride;
  bool add;  // true: add the product to `to`; false: overwrite `to`
  // Scratch memory for packed operands, aligned to 64 bytes. Its size is packed_by_rows(),
  // packed_by_columns() or packed_outer() elements of 32 bits.
  uint32_t* packed;
};

// n must be a multiple of kTileSide. k must be, too, except for tile_product_outer().
constexpr int64_t kTileSide = 32;

// Returns `size` rounded up to a multiple of kTileSide.
constexpr int64_t padded_to_tiles(int64_t size) {
  return (size + kTileSide - 1) / kTileSide * kTileSide;
}

// tile_product_by_rows(): a [m, k], b [n, k]; computes a b^T.
constexpr int64_t kTileRows = 64;  // rows of a that stay in the cache while all of b is read
constexpr int64_t packed_by_rows(int64_t m, int64_t k) {
  return (m < kTileRows ? padded_to_tiles(m) : kTileRows) * k / 2;
}
void tile_product_by_rows(const TileProduct& product);

// tile_product_by_columns(): a [m, k], b [k, n]; computes a b.
// The first term of packed_by_columns() is for kTilePanel packed columns of b, the second term for
// a copy of the last m % kTileSide rows of a, padded with zeros to kTileSide rows.
constexpr int64_t kTilePanel = 128;  // columns of b that are packed at a time
constexpr int64_t packed_by_columns(int64_t k) {
  return k * kTilePanel / 2 + kTileSide * k / 2;
}
void tile_product_by_columns(const TileProduct& product);

// tile_product_outer(): a [k, m], b [k, n]; computes a^T b, such as the gradient of a weight. m
// must be a multiple of kTileSide.
constexpr int64_t packed_outer(int64_t m, int64_t n, int64_t k) {
  return padded_to_tiles(k) * (m + n) / 2;
}
void tile_product_outer(const TileProduct& product);

// Returns whether this process may use tiles; not which types of numbers the tiles of this CPU
// multiply. The first call asks the operating system for permission. Returns false if the operating
// system does not support tiles or refuses. Exists in builds for x86-64 only.
bool tiles_are_allowed();

}  // namespace colossal::ops::kernels
