#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "colossal/ops/kernels/amx_tiles.h"
#include "colossal/ops/kernels/tile_product.h"

namespace colossal::ops::kernels {

namespace {

constexpr int64_t kDepth = 2 * kTile;  // bf16 numbers in a row of a tile

// Two by two tiles of sums.
struct alignas(64) Sums {
  float tiles[4][kTileNumbers];  // tiles 0 and 1 are above tiles 2 and 3
};

// Computes two by two tiles of a product. Each pointer is to the first of `depth` tiles, over which
// the products are summed. a_0 and a_1: tiles of rows, at distances of a_step elements; within a
// tile, rows are at distances of a_row_bytes bytes. b_0 and b_1: packed tiles of pairs, one after
// the other.
[[gnu::always_inline]] inline void multiply_tiles(const uint16_t* a_0, const uint16_t* a_1,
                                                  int64_t a_row_bytes, int64_t a_step,
                                                  const uint32_t* b_0, const uint32_t* b_1,
                                                  int64_t depth, Sums& sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < depth; ++i) {
    _tile_loadd(4, a_0 + i * a_step, a_row_bytes);
    _tile_loadd(6, b_0 + i * kTileNumbers, 64);
    _tile_loadd(5, a_1 + i * a_step, a_row_bytes);
    _tile_loadd(7, b_1 + i * kTileNumbers, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums.tiles[0], 64);
  _tile_stored(1, sums.tiles[1], 64);
  _tile_stored(2, sums.tiles[2], 64);
  _tile_stored(3, sums.tiles[3], 64);
}

// Rounds 32 sums to bf16 and writes them to `to`. add: adds what is there before rounding.
[[gnu::always_inline]] inline void store_row(uint16_t* to, __m512 low, __m512 high, bool add) {
  if (add) {
    const __m512i before = _mm512_loadu_si512(to);
    const auto widened = [](__m256i half) {
      return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
    };
    low = _mm512_add_ps(low, widened(_mm512_castsi512_si256(before)));
    high = _mm512_add_ps(high, widened(_mm512_extracti64x4_epi64(before, 1)));
  }
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

// Interleaves pairs of 32 rows of 32 bf16 numbers: first[p] has the pairs of rows 2 p and 2 p + 1
// for columns 0 to 15, second[p] those for columns 16 to 31. Rows from `rows` on count as zeros.
[[gnu::always_inline]] inline void interleave(const uint16_t* from, int64_t stride, int64_t rows,
                                              __m512i first[16], __m512i second[16]) {
  const __m512i order_of_first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i order_of_second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  for (int64_t pair = 0; pair < kTile; ++pair) {
    const auto row = [&](int64_t i) {
      return i < rows ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512();
    };
    const __m512i even = row(2 * pair), odd = row(2 * pair + 1);
    const __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
    first[pair] = _mm512_permutex2var_epi64(low, order_of_first, high);
    second[pair] = _mm512_permutex2var_epi64(low, order_of_second, high);
  }
}

// Packs b [k, 32 columns] into tiles of pairs: ceil(k / 32) tiles of the first 16 columns at
// `first`, and as many of the other 16 columns at `second`. Missing rows count as zeros.
void pack_pairs_of(const uint16_t* from, int64_t stride, int64_t k, uint32_t* first,
                   uint32_t* second) {
  for (int64_t depth = 0; depth < k; depth += kDepth) {
    __m512i left[16], right[16];
    interleave(from + depth * stride, stride, k - depth, left, right);
    store_tile(left, first + depth / kDepth * kTileNumbers);
    store_tile(right, second + depth / kDepth * kTileNumbers);
  }
}

// Packs up to 16 rows of a into `depth` tiles of pairs, transposed: row i of a becomes column i of
// the tiles. Rows from `rows` on count as zeros.
void pack_rows(const uint16_t* from, int64_t stride, int64_t rows, int64_t depth, uint32_t* to) {
  for (int64_t i = 0; i < depth; ++i) {
    __m512i tile[16];
    load_tile(from + i * kDepth, 2 * stride, rows, tile);
    transpose_tile(tile);
    store_tile(tile, to + i * kTileNumbers);
  }
}

// Writes `rows` rows of 32 sums.
void store_sums(const Sums& sums, int64_t rows, uint16_t* to, int64_t stride, bool add) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t pair = row / kTile * 2, at = row % kTile * kTile;
    store_row(to + row * stride, _mm512_load_ps(sums.tiles[pair] + at),
              _mm512_load_ps(sums.tiles[pair + 1] + at), add);
  }
}

// Writes the transpose of the sums: the rows of `sums` are 32 columns of the product, and the first
// `rows` columns of `sums` are rows of the product.
void store_transposed(const Sums& sums, int64_t rows, uint16_t* to, int64_t stride, bool add) {
  for (int64_t across = 0; across < 2 && across * kTile < rows; ++across) {
    __m512i low[16], high[16];
    load_tile(sums.tiles[across], 64, kTile, low);
    load_tile(sums.tiles[2 + across], 64, kTile, high);
    transpose_tile(low);
    transpose_tile(high);
    const int64_t count = std::min(kTile, rows - across * kTile);
    for (int64_t row = 0; row < count; ++row) {
      store_row(to + (across * kTile + row) * stride, (__m512)low[row], (__m512)high[row], add);
    }
  }
}

}  // namespace

// Computes the transposed product b a^T. The rows of b have the layout of a left operand already,
// so only a, which has fewer rows, is packed.
void tile_product_by_rows(const TileProduct& p) {
  const TileConfiguration tiles;
  const int64_t depth = p.k / kDepth, tile_row = depth * kTileNumbers;
  Sums sums;
  for (int64_t begin = 0; begin < p.m; begin += kTileRows) {
    const int64_t count = std::min(p.m - begin, kTileRows);
    const uint16_t* const a = p.a + begin * p.a_stride;
    for (int64_t row = 0; row < padded_to_tiles(count); row += kTile) {
      pack_rows(a + row * p.a_stride, p.a_stride, count - row, depth,
                p.packed + row / kTile * tile_row);
    }
    for (int64_t column = 0; column < p.n; column += kTileSide) {
      const uint16_t* const b = p.b + column * p.b_stride;
      for (int64_t row = 0; row < count; row += kTileSide) {
        const uint32_t* const pairs = p.packed + row / kTile * tile_row;
        multiply_tiles(b, b + kTile * p.b_stride, 2 * p.b_stride, kDepth, pairs, pairs + tile_row,
                       depth, sums);
        store_transposed(sums, std::min(kTileSide, count - row),
                         p.to + (begin + row) * p.to_stride + column, p.to_stride, p.add);
      }
    }
  }
}

void tile_product_by_columns(const TileProduct& p) {
  const TileConfiguration tiles;
  const int64_t depth = p.k / kDepth, tile_row = depth * kTileNumbers;
  // Tiles are loaded whole, and memory after the last row of a may not be read. So the rows after
  // the last whole block of a are copied and padded with zeros.
  const int64_t whole = p.m / kTileSide * kTileSide;
  auto* const rest = reinterpret_cast<uint16_t*>(p.packed + p.k * kTilePanel / 2);
  for (int64_t row = whole; row < p.m; ++row) {
    std::copy_n(p.a + row * p.a_stride, p.k, rest + (row - whole) * p.k);
  }
  if (whole < p.m) std::fill(rest + (p.m - whole) * p.k, rest + kTileSide * p.k, uint16_t{0});
  Sums sums;
  for (int64_t panel = 0; panel < p.n; panel += kTilePanel) {
    const int64_t columns = std::min(kTilePanel, p.n - panel);
    for (int64_t column = 0; column < columns; column += kTileSide) {
      uint32_t* const pairs = p.packed + column / kTile * tile_row;
      pack_pairs_of(p.b + panel + column, p.b_stride, p.k, pairs, pairs + tile_row);
    }
    for (int64_t row = 0; row < p.m; row += kTileSide) {
      const bool is_rest = row == whole;
      const uint16_t* const a = is_rest ? rest : p.a + row * p.a_stride;
      const int64_t a_stride = is_rest ? p.k : p.a_stride;
      for (int64_t column = 0; column < columns; column += kTileSide) {
        const uint32_t* const pairs = p.packed + column / kTile * tile_row;
        multiply_tiles(a, a + kTile * a_stride, 2 * a_stride, kDepth, pairs, pairs + tile_row,
                       depth, sums);
        store_sums(sums, std::min(kTileSide, p.m - row), p.to + row * p.to_stride + panel + column,
                   p.to_stride, p.add);
      }
    }
  }
}

void tile_product_outer(const TileProduct& p) {
  const TileConfiguration tiles;
  const int64_t depth = padded_to_tiles(p.k) / kDepth, tile_row = depth * kTileNumbers;
  uint32_t* const left = p.packed;
  uint32_t* const right = left + p.m / kTile * tile_row;
  for (int64_t row = 0; row < p.m; row += kTileSide) {
    uint32_t* const to = left + row / kTile * tile_row;
    for (int64_t i = 0; i < depth; ++i) {
      __m512i first[16], second[16];
      interleave(p.a + i * kDepth * p.a_stride + row, p.a_stride, p.k - i * kDepth, first, second);
      transpose_tile(first);
      transpose_tile(second);
      store_tile(first, to + i * kTileNumbers);
      store_tile(second, to + tile_row + i * kTileNumbers);
    }
  }
  for (int64_t column = 0; column < p.n; column += kTileSide) {
    uint32_t* const to = right + column / kTile * tile_row;
    pack_pairs_of(p.b + column, p.b_stride, p.k, to, to + tile_row);
  }
  Sums sums;
  for (int64_t row = 0; row < p.m; row += kTileSide) {
    const auto* const a = reinterpret_cast<const uint16_t*>(left + row / kTile * tile_row);
    for (int64_t column = 0; column < p.n; column += kTileSide) {
      const uint32_t* const pairs = right + column / kTile * tile_row;
      multiply_tiles(a, a + 2 * tile_row, 64, 2 * kTileNumbers, pairs, pairs + tile_row, depth,
                     sums);
      store_sums(sums, kTileSide, p.to + row * p.to_stride + column, p.to_stride, p.add);
    }
  }
}

bool tiles_are_allowed() {
  constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool allowed = syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
  return allowed;
}

}  // namespace colossal::ops::kernels
