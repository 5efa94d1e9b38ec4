#include "colossal/ops/kernels/int8_tiles.h"

#include <immintrin.h>

#include <algorithm>

#include "colossal/ops/kernels/amx_tiles.h"
#include "colossal/ops/kernels/native_vector.h"
#include "colossal/ops/kernels/prefetch.h"
#include "colossal/ops/kernels/quantized_scale.h"

namespace colossal::ops::kernels {

void amx_pack_int8_rows(const int8_t* codes, int64_t rows, int64_t depth, int64_t begin,
                        int64_t end, int8_t* packed);
void amx_multiply_int8(const Int8Product& product, const int8_t* packed, int64_t begin,
                       int64_t end);

namespace {

static_assert(kInt8Rows == kTile && kInt8Outputs == 2 * kTile);

constexpr int64_t kTileBytes = kTile * kInt8Depth;
// The codes of a block of outputs that are multiplied at a time, and their sums with so many rows,
// stay in the first and the second level of the cache.
constexpr int64_t kPanelDepth = 512, kPanelTiles = kPanelDepth / kInt8Depth;
constexpr int64_t kPanelRows = 256;
constexpr int64_t kCachedBytes = 1 << 20;  // of packed rows that all outputs are multiplied with

struct alignas(64) Panel {
  int8_t tiles[2][kPanelTiles][kTileBytes];  // of 2 x 16 outputs
};

// Of kPanelRows rows with kInt8Outputs outputs. integers: for each block of 16 rows, the sums over
// a group of inputs in two tiles [output, row]. numbers: [row, output], summed over groups.
struct alignas(64) Sums {
  int32_t integers[kPanelRows / kTile][2][kTileNumbers];
  float numbers[kPanelRows][kInt8Outputs];
};

// Loads up to 64 codes; those from `count` on are not read, and become zeros. count may be
// negative.
[[gnu::always_inline]] inline __m512i load_codes(const int8_t* from, int64_t count) {
  if (count >= kInt8Depth) return _mm512_loadu_si512(from);
  const __mmask64 some = count <= 0 ? 0 : (__mmask64{1} << count) - 1;
  return _mm512_maskz_loadu_epi8(some, from);
}

// Copies the codes [k, k + count) of outputs [begin, end) of the weight into tiles. Outputs and
// codes that are missing become zeros. Returns the number of tiles along the inputs.
int64_t copy_panel(const QuantizedWeight& weight, int64_t begin, int64_t end, int64_t k,
                   int64_t count, Panel& panel) {
  const int64_t tiles = (count + kInt8Depth - 1) / kInt8Depth;
  for (int64_t o = 0; o < kInt8Outputs; ++o) {
    int8_t* to = panel.tiles[o / kTile][0] + o % kTile * kInt8Depth;
    const auto* from =
        static_cast<const int8_t*>(weight.codes) + (begin + o) * weight.row_bytes + k;
    for (int64_t tile = 0; tile < tiles; ++tile, to += kTileBytes) {
      prefetch(from + tile * kInt8Depth + kBytesAhead);
      const int64_t left = begin + o < end ? count - tile * kInt8Depth : 0;
      _mm512_store_si512(to, load_codes(from + tile * kInt8Depth, left));
    }
  }
  return tiles;
}

// Where the codes of 2 x 16 outputs are.
struct Codes {
  const int8_t* tiles[2];  // the first tile of each
  int64_t row_bytes;       // distance of the rows (outputs) of a tile
  int64_t step;            // distance of tiles along the inputs
  const int8_t* ahead;     // memory to prefetch, kAhead bytes for each step; null: none
};
constexpr int64_t kAhead = kInt8Outputs * kInt8Depth;

// Adds the product of the outputs with kBlocks blocks of 16 rows to `sums`, or overwrites them.
// packed: the first tile of the rows; tiles of the next block are packed_step bytes later.
template <int kBlocks>
[[gnu::always_inline]] inline void multiply_tiles(const Codes& codes, const int8_t* packed,
                                                  int64_t packed_step, int64_t tiles, bool add,
                                                  int32_t (*sums)[2][kTileNumbers]) {
  if (add) {
    _tile_loadd(0, sums[0][0], 64);
    _tile_loadd(1, sums[0][1], 64);
    if constexpr (kBlocks == 2) {
      _tile_loadd(2, sums[1][0], 64);
      _tile_loadd(3, sums[1][1], 64);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t i = 0; i < tiles; ++i) {
    _tile_loadd(4, codes.tiles[0] + i * codes.step, codes.row_bytes);
    _tile_loadd(6, packed + i * kTileBytes, kInt8Depth);
    _tile_loadd(5, codes.tiles[1] + i * codes.step, codes.row_bytes);
    if (codes.ahead) {
      for (int64_t line = 0; line < kAhead; line += kLine)
        prefetch(codes.ahead + i * kAhead + line);
    }
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    if constexpr (kBlocks == 2) {
      _tile_loadd(7, packed + packed_step + i * kTileBytes, kInt8Depth);
      _tile_dpbssd(2, 4, 7);
      _tile_dpbssd(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0][0], 64);
  _tile_stored(1, sums[0][1], 64);
  if constexpr (kBlocks == 2) {
    _tile_stored(2, sums[1][0], 64);
    _tile_stored(3, sums[1][1], 64);
  }
}

// Blocks of 16 rows that pack() wrote.
struct PackedRows {
  const int8_t* first;  // the first block
  int64_t blocks;
  int64_t block_bytes;

  // Sums the products with `tiles` tiles of codes, whose first is that of input k.
  void multiply(const Codes& codes, int64_t k, int64_t tiles, bool add, Sums& sums) const {
    const int8_t* const at = first + k / kInt8Depth * kTileBytes;
    int64_t block = 0;
    for (; block + 2 <= blocks; block += 2) {
      multiply_tiles<2>(codes, at + block * block_bytes, block_bytes, tiles, add,
                        sums.integers + block);
    }
    if (block < blocks) {
      multiply_tiles<1>(codes, at + block * block_bytes, block_bytes, tiles, add,
                        sums.integers + block);
    }
  }
};

struct Inputs {
  int64_t begin, end;
};

// Computes sums.integers for the inputs of a group and the outputs [begin, end).
void sum_group(const QuantizedWeight& weight, const PackedRows& rows, const Inputs& inputs,
               int64_t begin, int64_t end, Panel& panel, Sums& sums) {
  const int64_t size = inputs.end - inputs.begin;
  // If codes are used once or twice, copying them would take longer than multiplying.
  if (rows.blocks <= 2 && end - begin == kInt8Outputs && size % kInt8Depth == 0) {
    const auto* const codes = static_cast<const int8_t*>(weight.codes) + begin * weight.row_bytes;
    const int8_t* const of_group = codes + inputs.begin;
    const Codes in_place{
        .tiles = {of_group, of_group + kTile * weight.row_bytes},
        .row_bytes = weight.row_bytes,
        .step = kInt8Depth,
        .ahead = codes + kInt8Outputs * weight.row_bytes + inputs.begin * kInt8Outputs};
    return rows.multiply(in_place, inputs.begin, size / kInt8Depth, /*add=*/false, sums);
  }
  const Codes copied{.tiles = {panel.tiles[0][0], panel.tiles[1][0]},
                     .row_bytes = kInt8Depth,
                     .step = kTileBytes,
                     .ahead = nullptr};
  for (int64_t k = inputs.begin; k < inputs.end; k += kPanelDepth) {
    const int64_t tiles =
        copy_panel(weight, begin, end, k, std::min(kPanelDepth, inputs.end - k), panel);
    rows.multiply(copied, k, tiles, k > inputs.begin, sums);
  }
}

struct Scales {
  __m512 of_outputs[2];
};

// Returns the scales of a group for outputs [begin, end); those of missing outputs are 0.
Scales scales_of(const QuantizedWeight& weight, int64_t group, int64_t begin, int64_t end) {
  alignas(64) float scales[kInt8Outputs] = {};
  for (int64_t output = begin; output < end; ++output) {
    scales[output - begin] = scale_at(weight, output * weight.groups + group);
  }
  return {{_mm512_load_ps(scales), _mm512_load_ps(scales + kTile)}};
}

// Multiplies the sums of a group by its scales and adds them to sums.numbers.
void add_group(Sums& sums, int64_t rows, const Scales& scales) {
  for (int64_t block = 0; block * kTile < rows; ++block) {
    for (int half = 0; half < 2; ++half) {
      __m512i integers[kTile];
      load_tile(sums.integers[block][half], 64, kTile, integers);
      transpose_tile(integers);
      for (int64_t row = 0; row < kTile; ++row) {
        float* const to = sums.numbers[block * kTile + row] + half * kTile;
        _mm512_store_ps(to, _mm512_fmadd_ps(scales.of_outputs[half],
                                            _mm512_cvtepi32_ps(integers[row]), _mm512_load_ps(to)));
      }
    }
  }
}

// Multiplies the sums of rows [first, first + rows) by the rows' scales, adds the bias, and writes
// them to y.
void store_rows(const Int8Product& product, const Sums& sums, int64_t first, int64_t rows,
                int64_t begin, int64_t end) {
  for (int half = 0; half < 2 && begin + half * kTile < end; ++half) {
    const int64_t output = begin + half * kTile, count = std::min(kTile, end - output);
    const auto some = static_cast<__mmask16>((1U << count) - 1);
    const __m512 bias =
        product.bias ? _mm512_maskz_loadu_ps(some, product.bias + output) : _mm512_setzero_ps();
    for (int64_t row = 0; row < rows; ++row) {
      __m512 sum = _mm512_mul_ps(_mm512_load_ps(sums.numbers[row] + half * kTile),
                                 _mm512_set1_ps(product.row_scales[first + row]));
      if (product.bias) sum = _mm512_add_ps(sum, bias);
      const int64_t place = (first + row) * product.y_stride + output;
      if (product.y_is_bfloat16) {
        const __m512i bits = (__m512i)rounded_bits((NativeVector<float>)sum);
        _mm256_mask_storeu_epi16(static_cast<uint16_t*>(product.y) + place, some,
                                 _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
      } else {
        _mm512_mask_storeu_ps(static_cast<float*>(product.y) + place, some, sum);
      }
    }
  }
}

}  // namespace

void amx_pack_int8_rows(const int8_t* codes, int64_t rows, int64_t depth, int64_t begin,
                        int64_t end, int8_t* packed) {
  const int64_t tiles = (depth + kInt8Depth - 1) / kInt8Depth;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t count = std::min(kTile, rows - block * kTile);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int8_t* const from = codes + block * kTile * depth + tile * kInt8Depth;
      __m512i lines[kTile];
      for (int64_t row = 0; row < kTile; ++row) {
        lines[row] = load_codes(from + row * depth, row < count ? depth - tile * kInt8Depth : 0);
      }
      transpose_tile(lines);
      store_tile(lines, reinterpret_cast<uint32_t*>(packed + (block * tiles + tile) * kTileBytes));
    }
  }
}

void amx_multiply_int8(const Int8Product& product, const int8_t* packed, int64_t begin,
                       int64_t end) {
  const TileConfiguration tiles;
  const QuantizedWeight& weight = product.weight;
  const int64_t depth = weight.blocks * kCodeBlock, group_size = weight.group_blocks * kCodeBlock;
  const int64_t block_bytes = packed_int8_bytes(kTile, depth);
  const int64_t most_rows =
      std::clamp(kCachedBytes / block_bytes / 2 * 2 * kTile, 2 * kTile, kPanelRows);
  Panel panel;
  Sums sums;
  for (int64_t first = 0; first < product.rows; first += most_rows) {
    const int64_t rows = std::min(most_rows, product.rows - first);
    const PackedRows packed_rows{.first = packed + first / kTile * block_bytes,
                                 .blocks = (rows + kTile - 1) / kTile,
                                 .block_bytes = block_bytes};
    for (int64_t output = begin; output < end; output += kInt8Outputs) {
      const int64_t last_output = std::min(end, output + kInt8Outputs);
      std::fill_n(sums.numbers[0], packed_rows.blocks * kTile * kInt8Outputs, 0.0F);
      for (int64_t group = 0; group < weight.groups; ++group) {
        const int64_t from = group * group_size, last = std::min(depth, from + group_size);
        sum_group(weight, packed_rows, {from, last}, output, last_output, panel, sums);
        add_group(sums, rows, scales_of(weight, group, output, last_output));
      }
      store_rows(product, sums, first, rows, output, last_output);
    }
  }
}

}  // namespace colossal::ops::kernels
