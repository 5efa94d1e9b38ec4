// NativeVector: a vector as wide as a register of the instruction set that a source file is
// compiled for. Use it in loops whose lanes are independent, so that results have the same bits for
// any width. (Vector of block.h always has 64 bytes; the compiler splits it if registers are
// narrower.)
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

// Native<Number>::Type: the vector type; elements are accessed by []. kLanes: its number of
// elements.
template <typename Number>
struct Native {
  typedef Number Type __attribute__((vector_size(kNativeBytes)));
  static constexpr int64_t kLanes = kNativeBytes / static_cast<int64_t>(sizeof(Number));
};

template <typename Number>
using NativeVector = typename Native<Number>::Type;

// Load and store a vector at an address of any alignment.
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

// Returns a vector with `number` in all lanes. (Subtracting zero changes no number, not even -0.)
template <typename Number>
[[gnu::always_inline]] inline NativeVector<Number> broadcast(Number number) {
  return number - NativeVector<Number>{};
}

// Rounds each lane to bf16, to nearest with ties to even; NaN stays NaN. The bits of the bf16
// number are the high 16 bits of the returned lane; the low 16 bits are not defined.
[[gnu::always_inline]] inline NativeVector<uint32_t> rounded_bits(NativeVector<float> value) {
  typedef NativeVector<uint32_t> Bits;
  const Bits bits = (Bits)value;
  const Bits rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  return value != value ? broadcast(uint32_t{0x7FC00000}) : rounded;
}

// A vector of bf16 numbers, with as many lanes as a NativeVector<float>.
typedef uint16_t Halves __attribute__((vector_size(kNativeBytes / 2)));

// Loads bf16 numbers and converts them to fp32.
[[gnu::always_inline]] inline NativeVector<float> load_halves(const uint16_t* from) {
  Halves halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return (NativeVector<float>)(__builtin_convertvector(halves, NativeVector<uint32_t>) << 16);
}

// Stores the high 16 bits of each lane: the bf16 numbers that rounded_bits() returned.
[[gnu::always_inline]] inline void store_halves(const NativeVector<uint32_t>& bits, uint16_t* to) {
  const Halves halves = __builtin_convertvector(bits >> 16, Halves);
  __builtin_memcpy(to, &halves, sizeof halves);
}

}  // namespace
}  // namespace colossal::ops::kernels
