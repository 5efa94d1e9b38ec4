// Elements of the types of kernels::ElementType in GPU code.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::cuda {

using kernels::ElementType;

// The type in which kernels compute with elements of type Element.
template <typename Element>
using Compute = std::conditional_t<std::is_same_v<Element, double>, double, float>;

template <typename Real, typename Element>
__device__ inline Real widen(Element element) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    return static_cast<Real>(__bfloat162float(element));
  } else {
    return static_cast<Real>(element);
  }
}

template <typename Element, typename Real>
__device__ inline Element narrow(Real number) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(number));
  } else {
    return static_cast<Element>(number);
  }
}

template <typename Real>
__device__ Real minus_infinity() {
  return static_cast<Real>(-INFINITY);
}

// Calls function(Element{}) with the C++ type of `type`.
template <typename Function>
void with_type(ElementType type, const Function& function) {
  switch (type) {
    case ElementType::float64:
      return function(double{});
    case ElementType::float32:
      return function(float{});
    case ElementType::bfloat16:
      return function(__nv_bfloat16{});
  }
}

// Elements that one instruction loads or stores.
template <typename Element, int kCount>
struct alignas(sizeof(Element) * kCount) Pack {
  Element element[kCount];
};
template <typename Element>
constexpr int kFullPack = 16 / sizeof(Element);

__host__ __device__ inline bool is_aligned(const void* array) {
  return reinterpret_cast<uintptr_t>(array) % 16 == 0;
}

// Returns whether rows of `size` elements can be read in packs of 16 bytes.
template <typename Element>
bool has_full_packs(int64_t size, std::initializer_list<const void*> arrays) {
  if (size % kFullPack<Element> != 0) return false;
  for (const void* array : arrays) {
    if (!is_aligned(array)) return false;
  }
  return true;
}

constexpr int kWarp = 32;      // threads
constexpr int kThreads = 256;  // per block

inline unsigned blocks_for(int64_t count) {
  constexpr int64_t kMostBlocks = 1 << 16;  // loops in the kernels do the rest
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace colossal::ops::cuda
