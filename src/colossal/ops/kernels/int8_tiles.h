// Kernels of ops/product/quantized_product.h: products of several rows of int8 numbers (codes) with
// int8 weights in the CPU's tile registers (Intel AMX). Sums over a group of inputs are exact, and
// results have the bits that native_int8_product() gives.
#pragma once

#include <cstdint>

#include "colossal/ops/kernels/quantized_rows.h"

namespace colossal::ops::kernels {

// Rows of x, and outputs of the weight, per block of a product.
inline constexpr int64_t kInt8Rows = 16, kInt8Outputs = 32;
// Codes per row of a tile. If a weight has several groups of inputs, each with its own scale, the
// size of a group must be a multiple of this number.
inline constexpr int64_t kInt8Depth = 64;

// Returns the size of the packed rows, in bytes. depth: codes per row, a multiple of kCodeBlock.
constexpr int64_t packed_int8_bytes(int64_t rows, int64_t depth) {
  return (rows + kInt8Rows - 1) / kInt8Rows * kInt8Rows *
         ((depth + kInt8Depth - 1) / kInt8Depth * kInt8Depth);
}

// pack() must have packed all rows before multiply() is called. Threads may pack different blocks,
// and compute different columns, at the same time.
struct Int8TileKernels {
  // The rows of codes [rows, depth] (contiguous) form blocks of kInt8Rows rows. Packs the blocks
  // [begin, end). packed: memory for all blocks, packed_int8_bytes(rows, depth) bytes, aligned to
  // 64 bytes. Missing rows of the last block, and missing codes of the last tile, count as zeros.
  void (*pack)(const int8_t* codes, int64_t rows, int64_t depth, int64_t begin, int64_t end,
               int8_t* packed);
  // Computes the columns (outputs) [begin, end) of y. packed: what pack() wrote for the codes
  // product.x. Reads `packed` in place of product.x, and does not use product.sums. Faster if end -
  // begin is a multiple of kInt8Outputs.
  void (*multiply)(const Int8Product& product, const int8_t* packed, int64_t begin, int64_t end);
};

// Returns the kernels; null if the CPU has no tiles of int8, or the operating system does not allow
// them.
const Int8TileKernels* int8_tile_kernels();

}  // namespace colossal::ops::kernels
