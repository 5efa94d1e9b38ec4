// The kernels levels_of_nf4(), levels_of_int8() and scale_levels() of VectorKernels. They unpack
// weights in nf4 and int8 (ops/product/packed_weight.h): convert codes to levels, and multiply
// levels by a scale. An nf4 byte has two codes, 0 .. 15: the first in its high four bits, the
// second in its low four bits. An int8 byte has one code.
#pragma once

#include <cstdint>
#include <cstring>

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {
namespace {

#if defined(__AVX512F__)
typedef uint8_t EightBytes __attribute__((vector_size(8)));
typedef uint8_t SixteenBytes __attribute__((vector_size(16)));
typedef int32_t SixteenIndices __attribute__((vector_size(64)));
typedef float SixteenLevels __attribute__((vector_size(64)));

// Writes the levels of the 16 nf4 codes in codes[0, 8) to to[0, 16). levels: the level of each
// code. All levels are in one register, so one instruction does the look-up.
inline void look_up(const uint8_t* codes, const SixteenLevels& levels, float* to) {
  EightBytes pairs;
  std::memcpy(&pairs, codes, sizeof pairs);
  const SixteenBytes numbers = __builtin_shufflevector(pairs >> 4, pairs & 15, 0, 8, 1, 9, 2, 10, 3,
                                                       11, 4, 12, 5, 13, 6, 14, 7, 15);
  const SixteenLevels found =
      __builtin_shuffle(levels, __builtin_convertvector(numbers, SixteenIndices));
  std::memcpy(to, &found, sizeof found);
}
#endif

// Writes the levels of the nf4 codes in codes[0, bytes) to to[0, 2 * bytes). levels: the level of
// each code, [16].
inline void levels_of_nf4(const uint8_t* codes, int64_t bytes, const float* levels, float* to) {
  int64_t i = 0;
#if defined(__AVX512F__)
  SixteenLevels table;
  std::memcpy(&table, levels, sizeof table);
  for (; i + 8 <= bytes; i += 8) look_up(codes + i, table, to + 2 * i);
#endif
  for (; i < bytes; ++i) {
    to[2 * i] = levels[codes[i] >> 4];
    to[2 * i + 1] = levels[codes[i] & 15];
  }
}

// to[i] = codes[i], for i in [0, count).
inline void levels_of_int8(const int8_t* codes, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = codes[i];
}

// to[i] = levels[i] * scale, for i in [0, count). type: of `to`, float32 or bfloat16; for bfloat16,
// products are rounded to nearest, ties to even. The products must be finite.
inline void scale_levels(const float* levels, float scale, int64_t count, void* to,
                         ElementType type) {
  if (type == ElementType::float32) {
    auto* const numbers = static_cast<float*>(to);
    for (int64_t i = 0; i < count; ++i) numbers[i] = levels[i] * scale;
    return;
  }
  auto* const halves = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) {
    const float number = levels[i] * scale;
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    halves[i] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
