// The kernel of native_int8_product(). Sums over a group of inputs are exact. The CPU's instruction
// for dot products of four numbers multiplies unsigned by signed numbers. So 128 is added to each
// code of the weight, and 128 times the sum of the row's codes is subtracted.
#include <immintrin.h>

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/prefetch.h"
#include "colossal/ops/kernels/quantized_rows.h"
#include "colossal/ops/kernels/quantized_scale.h"

namespace colossal::ops::kernels {

void avx512_vnni_rows(const Int8Product& product, int64_t begin, int64_t end);

namespace {

constexpr int kTileRows = 3, kTileOutputs = 4;
constexpr int64_t kStep = 64;

// Loads the codes [k, k + kStep) of a row, with zeros from `end` on. end - k is a multiple of 32.
[[gnu::always_inline]] inline __m512i load_codes(const int8_t* row, int64_t k, int64_t end) {
  if (k + kStep <= end) return _mm512_loadu_si512(row + k);
  return _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + k)));
}

// Returns the sums of the lanes of kOutputs vectors; the other lanes are not defined.
template <int kOutputs>
[[gnu::always_inline]] inline __m128i lane_sums(const __m512i* of) {
  if constexpr (kOutputs == 1) {
    return _mm_cvtsi32_si128(_mm512_reduce_add_epi32(of[0]));
  } else {
    static_assert(kOutputs == 4);
    const auto added = [](__m512i a, __m512i b) {
      return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    };
    const __m512i first = added(of[0], of[1]), second = added(of[2], of[3]);
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(first, second),
                                         _mm512_unpackhi_epi64(first, second));
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  }
}

template <int kRows, int kOutputs>
[[gnu::always_inline]] inline void multiply_tile(const Int8Product& product, int64_t row,
                                                 int64_t output) {
  const QuantizedWeight& weight = product.weight;
  const int64_t depth = weight.blocks * kCodeBlock;
  const int64_t group_size = weight.group_blocks * kCodeBlock;
  const int8_t* x = product.x + row * depth;
  const int8_t* codes = static_cast<const int8_t*>(weight.codes) + output * weight.row_bytes;
  const __m512i up = _mm512_set1_epi8(static_cast<char>(-128));
  __m128 sums[kRows] = {};  // of the outputs
  for (int64_t group = 0; group < weight.groups; ++group) {
    __m512i of_group[kRows][kOutputs];
    // The sums of a group begin with the subtrahend, in lane 0.
    for (int r = 0; r < kRows; ++r) {
      const int32_t moved = -128 * product.sums[(row + r) * weight.groups + group];
      for (int o = 0; o < kOutputs; ++o) {
        of_group[r][o] = _mm512_zextsi128_si512(_mm_cvtsi32_si128(moved));
      }
    }
    const int64_t end = smaller(depth, (group + 1) * group_size);
    for (int64_t k = group * group_size; k < end; k += kStep) {
      __m512i weights[kOutputs];
      for (int o = 0; o < kOutputs; ++o) {
        const int8_t* of_output = codes + o * weight.row_bytes;
        prefetch(codes + kBytesAhead + k * kOutputs + o * kLine);
        weights[o] = _mm512_xor_si512(load_codes(of_output, k, end), up);
      }
      for (int r = 0; r < kRows; ++r) {
        const __m512i of_row = load_codes(x + r * depth, k, end);
        for (int o = 0; o < kOutputs; ++o) {
          of_group[r][o] = _mm512_dpbusd_epi32(of_group[r][o], weights[o], of_row);
        }
      }
    }
    __m128 scales = _mm_setzero_ps();
    for (int o = 0; o < kOutputs; ++o) {
      scales[o] = scale_at(weight, (output + o) * weight.groups + group);
    }
    for (int r = 0; r < kRows; ++r) {
      sums[r] = _mm_fmadd_ps(scales, _mm_cvtepi32_ps(lane_sums<kOutputs>(of_group[r])), sums[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const int64_t place = (row + r) * product.y_stride + output;
    for (int o = 0; o < kOutputs; ++o) {
      const float sum = sums[r][o] * product.row_scales[row + r];
      store_result(product, place + o, product.bias ? sum + product.bias[output + o] : sum);
    }
  }
}

template <int kRows, int kOutputs>
inline void multiply_outputs(const Int8Product& product, int64_t row, int64_t output) {
  for (; row + kRows <= product.rows; row += kRows) {
    multiply_tile<kRows, kOutputs>(product, row, output);
  }
  if constexpr (kRows > 1) multiply_outputs<kRows - 1, kOutputs>(product, row, output);
}

}  // namespace

void avx512_vnni_rows(const Int8Product& product, int64_t begin, int64_t end) {
  int64_t output = begin;
  for (; output + kTileOutputs <= end; output += kTileOutputs) {
    multiply_outputs<kTileRows, kTileOutputs>(product, 0, output);
  }
  for (; output < end; ++output) multiply_outputs<kTileRows, 1>(product, 0, output);
}

}  // namespace colossal::ops::kernels
