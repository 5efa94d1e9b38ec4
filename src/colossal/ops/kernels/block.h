// Reads and writes arrays of any ElementType in blocks of up to 512 elements. A block is converted
// to the compute type "Real" (float or double) in a small buffer, so that kernels need to be
// written for Real only.
//
// This header, like all headers of this folder that define functions in an unnamed namespace, is
// included only by source files that are compiled for one instruction set each. The unnamed
// namespace keeps the linker from merging functions compiled for different CPUs.
#pragma once

#include <cstdint>

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {
namespace {

constexpr int64_t kBlock = 512;       // maximum number of elements per block
constexpr int64_t kVectorBytes = 64;  // size of a Vector, and alignment of buffers

// A vector of 64 bytes. If the instruction set has narrower registers, the compiler splits it; the
// number of lanes does not change.
template <typename Real>
struct Vector {
  typedef Real Type __attribute__((vector_size(kVectorBytes)));
  static constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(Real));
};

// Returns the elements from[0, kLanes). `from` may have any alignment.
template <typename Real>
[[gnu::always_inline]] inline typename Vector<Real>::Type load_vector(const Real* from) {
  typename Vector<Real>::Type value;
  __builtin_memcpy(&value, from, kVectorBytes);
  return value;
}

// Returns the sum of all lanes, added in fp64 in ascending order.
template <typename Real>
inline double sum_lanes(const typename Vector<Real>::Type& vector) {
  double sum = 0;
  for (int64_t lane = 0; lane < Vector<Real>::kLanes; ++lane) sum += vector[lane];
  return sum;
}

// Sets block[count], block[count + 1], ... up to the next multiple of Vector<Real>::kLanes to
// `value`, so that the caller can read whole vectors.
template <typename Real>
inline void pad_block(Real* block, int64_t count, Real value) {
  for (int64_t i = count; i % Vector<Real>::kLanes != 0; ++i) block[i] = value;
}

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Returns the bits of `value` rounded to bf16, to nearest with ties to even; NaN stays NaN. Uses
// integer operations, which give the same bits on all instruction sets.
[[gnu::always_inline]] inline uint16_t round_to_bfloat16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(value != value ? 0x7FC0 : rounded);
}

// Converts the bits of a bf16 number to fp32.
[[gnu::always_inline]] inline float from_bfloat16(uint16_t value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value) << 16);
}

// Returns the ElementType of Real.
template <typename Real>
constexpr ElementType element_type() {
  return sizeof(Real) == 8 ? ElementType::float64 : ElementType::float32;
}

// Computes block[i] <- element begin + i of `data`, converted to Real, for i in [0, count).
template <typename Real>
inline void widen_block(const void* data, ElementType type, int64_t begin, int64_t count,
                        Real* __restrict block) {
  if (type == ElementType::float64) {
    const double* from = static_cast<const double*>(data) + begin;
    for (int64_t i = 0; i < count; ++i) block[i] = static_cast<Real>(from[i]);
  } else if (type == ElementType::float32) {
    const float* from = static_cast<const float*>(data) + begin;
    for (int64_t i = 0; i < count; ++i) block[i] = static_cast<Real>(from[i]);
  } else {
    const uint16_t* from = static_cast<const uint16_t*>(data) + begin;
    for (int64_t i = 0; i < count; ++i) block[i] = static_cast<Real>(from_bfloat16(from[i]));
  }
}

// Computes element begin + i of `data` <- block[i], rounded to nearest in `type`, for i in [0,
// count).
template <typename Real>
inline void narrow_block(const Real* __restrict block, int64_t count, void* data, ElementType type,
                         int64_t begin) {
  if (type == ElementType::float64) {
    double* to = static_cast<double*>(data) + begin;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(block[i]);
  } else if (type == ElementType::float32) {
    float* to = static_cast<float*>(data) + begin;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(block[i]);
  } else {
    uint16_t* to = static_cast<uint16_t*>(data) + begin;
    for (int64_t i = 0; i < count; ++i) to[i] = round_to_bfloat16(static_cast<float>(block[i]));
  }
}

// Returns a pointer to elements [begin, begin + count) of `data`, as Real. It points into `data` if
// `type` is Real's type; otherwise it is `buffer`, which receives the converted elements.
template <typename Real>
inline const Real* read_block(const void* data, ElementType type, int64_t begin, int64_t count,
                              Real* buffer) {
  if (type == element_type<Real>()) return static_cast<const Real*>(data) + begin;
  widen_block(data, type, begin, count, buffer);
  return buffer;
}

// Does what read_block() does, but for elements that the caller modifies in the returned memory.
// The caller must then call write_block() with the same memory.
template <typename Real>
inline Real* modify_block(void* data, ElementType type, int64_t begin, int64_t count,
                          Real* buffer) {
  if (type == element_type<Real>()) return static_cast<Real*>(data) + begin;
  widen_block(data, type, begin, count, buffer);
  return buffer;
}

// Stores the elements that modify_block() returned as `block`, after the caller has modified them.
// Does nothing if `block` points into `data`.
template <typename Real>
inline void write_block(const Real* block, int64_t count, void* data, ElementType type,
                        int64_t begin) {
  if (type != element_type<Real>()) narrow_block(block, count, data, type, begin);
}

}  // namespace
}  // namespace colossal::ops::kernels
