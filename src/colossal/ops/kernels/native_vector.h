// Vectors as wide as the registers of the instruction set that a source file is compiled for. For
// loops whose lanes are independent, so that their results have the same bits for any width. A
// NativeVector fits into one register; the compiler splits a Vector of block.h, which may be wider.
#pragma once

#include <cstdint>

namespace colossal::ops::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kNativeBytes = 64;
#elif defined(__AVX2__)
constexpr int64_t kNativeBytes = 32;
#else
constexpr int64_t kNativeBytes = 16;
#endif

template <typename Number>
struct Native {
  typedef Number Type __attribute__((vector_size(kNativeBytes)));
  static constexpr int64_t kLanes = kNativeBytes / static_cast<int64_t>(sizeof(Number));
};

template <typename Number>
using NativeVector = typename Native<Number>::Type;

template <typename Number>
[[gnu::always_inline]] inline NativeVector<Number> load_native(const Number* from) {
  NativeVector<Number> vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename Number>
[[gnu::always_inline]] inline void store_native(const NativeVector<Number>& vector, Number* to) {
  __builtin_memcpy(to, &vector, sizeof vector);
}

// Returns `number` in all lanes. It subtracts zero, which changes no number, not even -0.
template <typename Number>
[[gnu::always_inline]] inline NativeVector<Number> broadcast(Number number) {
  return number - NativeVector<Number>{};
}

// Rounds each lane to bf16, to nearest with ties to even. The bf16 bits are the high half of the
// lane; the low half is not defined.
[[gnu::always_inline]] inline NativeVector<uint32_t> rounded_bits(NativeVector<float> value) {
  typedef NativeVector<uint32_t> Bits;
  const Bits bits = (Bits)value;
  const Bits rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  return value != value ? broadcast(uint32_t{0x7FC00000}) : rounded;
}

// As many bf16 numbers as a NativeVector<float> has lanes.
typedef uint16_t Halves __attribute__((vector_size(kNativeBytes / 2)));

// Loads bf16 numbers and converts them to fp32.
[[gnu::always_inline]] inline NativeVector<float> load_halves(const uint16_t* from) {
  Halves halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return (NativeVector<float>)(__builtin_convertvector(halves, NativeVector<uint32_t>) << 16);
}

// Stores the high half of each lane, as of rounded_bits().
[[gnu::always_inline]] inline void store_halves(const NativeVector<uint32_t>& bits, uint16_t* to) {
  const Halves halves = __builtin_convertvector(bits >> 16, Halves);
  __builtin_memcpy(to, &halves, sizeof halves);
}

}  // namespace
}  // namespace colossal::ops::kernels
