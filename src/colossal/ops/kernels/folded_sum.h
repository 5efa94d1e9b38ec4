// The sum of a vector's lanes, in a fixed order.
#pragma once

#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// kLanes: 0, 1 .. half the number of lanes - 1. Returns the lower half of v plus the upper half.
template <int... kLanes, typename Vector>
[[gnu::always_inline]] inline auto halves_added(const Vector& v) {
  return __builtin_shufflevector(v, v, kLanes...) +
         __builtin_shufflevector(v, v, (kLanes + static_cast<int>(sizeof...(kLanes)))...);
}

// Adds the upper half of the lanes to the lower half until one number is left, and returns it.
template <typename Number>
[[gnu::always_inline]] inline Number folded_sum(const NativeVector<Number>& v) {
  constexpr int64_t kLanes = Native<Number>::kLanes;
  if constexpr (kLanes == 16) {
    const auto last =
        halves_added<0, 1>(halves_added<0, 1, 2, 3>(halves_added<0, 1, 2, 3, 4, 5, 6, 7>(v)));
    return last[0] + last[1];
  } else if constexpr (kLanes == 8) {
    const auto last = halves_added<0, 1>(halves_added<0, 1, 2, 3>(v));
    return last[0] + last[1];
  } else if constexpr (kLanes == 4) {
    const auto last = halves_added<0, 1>(v);
    return last[0] + last[1];
  } else {
    return v[0] + v[1];
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
