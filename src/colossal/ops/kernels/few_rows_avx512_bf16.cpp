// The kernel of native_bf16_rows(): uses the CPU's instruction for dot products of pairs of bf16
// numbers.
#include <immintrin.h>

#include "colossal/ops/kernels/few_rows_tiles.h"

namespace colossal::ops::kernels {

void avx512_bf16_rows(const RowsProduct& product, int64_t begin, int64_t end);

namespace {

struct Pairs {
  typedef uint16_t Element;
  typedef float Sum;
  typedef __m512i Loaded;
  typedef NativeVector<float> Sums;
  static constexpr int64_t kStep = 32;

  [[gnu::always_inline]] static Loaded load(const uint16_t* from) {
    return _mm512_loadu_si512(from);
  }
  [[gnu::always_inline]] static Sums multiply_add(const Sums& sums, const Loaded& a,
                                                  const Loaded& b) {
    return (Sums)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
  }
  [[gnu::always_inline]] static float sum(const Sums& sums) { return folded_sum<float>(sums); }
  [[gnu::always_inline]] static float widen(uint16_t value) { return from_bfloat16(value); }
  [[gnu::always_inline]] static uint16_t narrow(float value) { return round_to_bfloat16(value); }
};

}  // namespace

void avx512_bf16_rows(const RowsProduct& product, int64_t begin, int64_t end) {
  multiply_rows<Pairs>(product, begin, end);
}

}  // namespace colossal::ops::kernels
