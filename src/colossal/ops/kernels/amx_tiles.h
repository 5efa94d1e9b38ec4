// Helpers of the kernels that multiply in the CPU's tile registers (Intel AMX): the configuration
// of the tiles, and tiles of 32-bit numbers in vector registers. Included only by source files that
// are compiled for one instruction set each, as block.h is.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace colossal::ops::kernels {
namespace {

constexpr int64_t kTile = 16;                    // rows of a tile, and columns of 32 bits
constexpr int64_t kTileNumbers = kTile * kTile;  // numbers of 32 bits in a tile

// The operand of the instructions that load and store the configuration of the tiles.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// While an object of this class exists, all eight tiles of this thread have 16 rows of 64 bytes.
// The constructor requires that tiles_are_allowed() (tile_product.h) returns true, and sets the
// tiles to zero. The destructor restores the configuration that other code on this thread may have
// loaded before, but not the contents of its tiles.
class TileConfiguration {
 public:
  TileConfiguration() {
    _tile_storeconfig(&before_);
    TileShapes shapes;
    for (int tile = 0; tile < 8; ++tile) shapes.row_bytes[tile] = 64, shapes.rows[tile] = kTile;
    _tile_loadconfig(&shapes);
  }
  ~TileConfiguration() {
    if (before_.palette == 0) {
      _tile_release();
    } else {
      _tile_loadconfig(&before_);
    }
  }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;

 private:
  TileShapes before_;
};

// Transposes 16 x 16 numbers of 32 bits in place. rows[i]: row i.
[[gnu::always_inline]] inline void transpose_tile(__m512i rows[16]) {
  __m512i halves[16];
  for (int i = 0; i < 8; ++i) {
    halves[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    halves[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[4 * i] = _mm512_unpacklo_epi64(halves[4 * i], halves[4 * i + 2]);
    rows[4 * i + 1] = _mm512_unpackhi_epi64(halves[4 * i], halves[4 * i + 2]);
    rows[4 * i + 2] = _mm512_unpacklo_epi64(halves[4 * i + 1], halves[4 * i + 3]);
    rows[4 * i + 3] = _mm512_unpackhi_epi64(halves[4 * i + 1], halves[4 * i + 3]);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      halves[8 * i + j] = _mm512_shuffle_i32x4(rows[8 * i + j], rows[8 * i + 4 + j], 0x88);
      halves[8 * i + 4 + j] = _mm512_shuffle_i32x4(rows[8 * i + j], rows[8 * i + 4 + j], 0xdd);
    }
  }
  for (int j = 0; j < 8; ++j) {
    rows[j] = _mm512_shuffle_i32x4(halves[j], halves[8 + j], 0x88);
    rows[8 + j] = _mm512_shuffle_i32x4(halves[j], halves[8 + j], 0xdd);
  }
}

// Loads 16 rows of 64 bytes into into[0, 16). Row i begins row_bytes * i bytes after `from`, which
// may have any alignment. Rows from `rows` on are not read; they become zeros.
[[gnu::always_inline]] inline void load_tile(const void* from, int64_t row_bytes, int64_t rows,
                                             __m512i into[16]) {
  for (int64_t i = 0; i < kTile; ++i) {
    into[i] = i < rows ? _mm512_loadu_si512(static_cast<const char*>(from) + i * row_bytes)
                       : _mm512_setzero_si512();
  }
}

// Stores 16 rows of 64 bytes, one after the other. `to` must be aligned to 64 bytes.
[[gnu::always_inline]] inline void store_tile(const __m512i rows[16], uint32_t* to) {
  for (int64_t i = 0; i < kTile; ++i) _mm512_store_si512(to + i * kTile, rows[i]);
}

}  // namespace
}  // namespace colossal::ops::kernels
