// The sum of the lanes of a NativeVector, in an order that depends only on the number of lanes.
#pragma once

#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// Returns the lower half of v plus the upper half, lane by lane. kLanes: the indices of the lower
// half, 0, 1, .., number of lanes / 2 - 1.
template <int... kLanes, typename Vector>
[[gnu::always_inline]] inline auto halves_added(const Vector& v) {
  return __builtin_shufflevector(v, v, kLanes...) +
         __builtin_shufflevector(v, v, (kLanes + static_cast<int>(sizeof...(kLanes)))...);
}

// Returns the sum of all lanes. Adds the upper half of the lanes to the lower half, then does so
// with the result, until one number is left.
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
