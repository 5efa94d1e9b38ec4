// The kernels of native_bf16_attention_passes() (attention_passes.h), for CPUs with AVX-512 BF16.
// CMakeLists.txt sets the compiler flags.
#include <immintrin.h>

#include "colossal/ops/kernels/attention.h"
#include "colossal/ops/kernels/attention_passes.h"

namespace colossal::ops::kernels {
namespace {

typedef NativeVector<float> Lanes;
typedef uint16_t TwoRows __attribute__((vector_size(64)));  // 16 lanes of each of two keys, in bf16

// Returns 2^x; 0 for results below 2^-149. NaN stays NaN.
[[gnu::always_inline]] inline Lanes scaled_power_of_two(Lanes x) {
  const Lanes least = broadcast(-200.0F);  // x - whole would be NaN for -infinity
  const Lanes bounded = least > x ? least : x;
  const Lanes whole = _mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm512_scalef_ps(power_series(bounded - whole), whole);
}

[[gnu::always_inline]] inline TwoRows rounded(Lanes first, Lanes second) {
  return (TwoRows)_mm512_cvtne2ps_pbh(second, first);
}

// Returns pairs of 16-bit numbers: pair i has lane i of the first key, then lane i of the second.
[[gnu::always_inline]] inline TwoRows interleaved(TwoRows rows) {
  constexpr TwoRows kOrder = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                              8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return __builtin_shuffle(rows, kOrder);
}

[[gnu::always_inline]] inline void store_first(TwoRows rows, uint16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256((__m512i)rows));
}

[[gnu::always_inline]] inline void store_second(TwoRows rows, uint16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_extracti64x4_epi64((__m512i)rows, 1));
}

template <BlockKind kKind, bool kDropout>
inline void probabilities_as(const AttentionBlock& block, const AttentionSums& sums,
                             uint32_t* pairs) {
  const int64_t keys = block.keys, stride = block.stride;
  for (int64_t lane = 0; lane < block.lanes; lane += Native<float>::kLanes) {
    const LaneBlock<float, kKind, kDropout> lanes(block, lane);
    const LaneSums<float> of_lanes(sums, lane);
    const Lanes shift = of_lanes.take_scores(lanes, block);
    Lanes total = of_lanes.total();
    const auto probability = [&](int64_t key) {
      const Lanes p = scaled_power_of_two(lanes.scores(key) - shift);
      total += p;
      return lanes.drop(p, key);
    };
    for (int64_t key = 0; key < keys; key += 2) {
      const Lanes first = probability(key);
      const Lanes second = key + 1 < keys ? probability(key + 1) : Lanes{};
      const TwoRows rows = interleaved(rounded(first, second));
      __builtin_memcpy(pairs + key / 2 * stride + lane, &rows, sizeof rows);
    }
    of_lanes.set_total(total);
  }
}

template <BlockKind kKind, bool kDropout>
inline void gradients_as(const AttentionBlock& block, const float* gradients,
                         const float* logsumexps, const float* deltas,
                         AttentionBf16Operands halves) {
  const int64_t keys = block.keys, stride = block.stride;
  for (int64_t lane = 0; lane < block.lanes; lane += Native<float>::kLanes) {
    const LaneBlock<float, kKind, kDropout> lanes(block, lane);
    const Lanes shift = load_native(logsumexps + lane);
    const Lanes delta = load_native(deltas + lane);
    struct Both {
      Lanes probability, gradient;
    };
    const auto both_of = [&](int64_t key) {
      const Lanes p = scaled_power_of_two(lanes.scores(key) - shift);
      const Lanes gradient = load_native(gradients + key * stride + lane);
      return Both{lanes.drop(p, key),
                  lanes.take_gradient(p * (lanes.drop(gradient, key) - delta), key)};
    };
    for (int64_t key = 0; key < keys; key += 2) {
      const bool pair = key + 1 < keys;
      const Both first = both_of(key), second = pair ? both_of(key + 1) : Both{};
      const TwoRows probability = rounded(first.probability, second.probability);
      const TwoRows gradient = rounded(first.gradient, second.gradient);
      const int64_t place = key * stride + lane;
      store_first(probability, halves.probabilities + place);
      store_first(gradient, halves.gradients + place);
      if (pair) {
        store_second(probability, halves.probabilities + place + stride);
        store_second(gradient, halves.gradients + place + stride);
      }
      const TwoRows rows = interleaved(gradient);
      __builtin_memcpy(halves.gradient_pairs + key / 2 * stride + lane, &rows, sizeof rows);
    }
  }
}

void probabilities(const AttentionBlock& block, const AttentionSums& sums, uint32_t* pairs) {
  with_block_kind(block, [&](auto kind, auto dropout) {
    probabilities_as<decltype(kind)::kValue, decltype(dropout)::kValue>(block, sums, pairs);
  });
}

void gradients(const AttentionBlock& block, void* gradients, const void* logsumexps,
               const void* deltas, const AttentionBf16Operands* halves) {
  with_block_kind(block, [&](auto kind, auto dropout) {
    gradients_as<decltype(kind)::kValue, decltype(dropout)::kValue>(
        block, static_cast<const float*>(gradients), static_cast<const float*>(logsumexps),
        static_cast<const float*>(deltas), *halves);
  });
}

}  // namespace

const AttentionPasses& avx512_bf16_attention_passes() {
  static constexpr AttentionPasses passes{probabilities, gradients, soft_cap};
  return passes;
}

}  // namespace colossal::ops::kernels
