// Rows of layer norm (J. L. Ba et al., "Layer Normalization", 2016) and of RMS norm (B. Zhang and
// R. Sennrich, "Root Mean Square Layer Normalization", 2019): y = factor * n + bias with n = (x -
// mean) * inverse_deviation, where the factor is weight, 1 + weight or 1. The functions are those
// of VectorKernels; each passes once over a row. A caller calls several in turn while the row is in
// the first-level cache.
#pragma once

#include <type_traits>

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// Reads element i of a row, or the vector of elements that begins at i, and converts from Element
// to the compute type. Value: a number or a NativeVector of the compute type.
template <typename Value, typename Element>
[[gnu::always_inline]] inline Value read(const void* row, int64_t i) {
  const Element* const from = static_cast<const Element*>(row) + i;
  if constexpr (sizeof(Element) != 2) {
    Value value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  } else if constexpr (sizeof(Value) == sizeof(float)) {
    return from_bfloat16(*from);
  } else {
    return load_halves(from);
  }
}

template <typename Element, typename Value>
[[gnu::always_inline]] inline void write(const Value& value, void* row, int64_t i) {
  Element* const to = static_cast<Element*>(row) + i;
  if constexpr (sizeof(Element) != 2) {
    __builtin_memcpy(to, &value, sizeof value);
  } else if constexpr (sizeof(Value) == sizeof(float)) {
    *to = round_to_bfloat16(value);
  } else {
    store_halves(rounded_bits(value), to);
  }
}

// Calls use<Real, Element>(): Real is the compute type, Element the type in memory.
template <typename Use>
[[gnu::always_inline]] inline auto with_types(ElementType type, const Use& use) {
  if (type == ElementType::float64) return use.template operator()<double, double>();
  if (type == ElementType::float32) return use.template operator()<float, float>();
  return use.template operator()<float, uint16_t>();
}

// Calls visit<Value>(i) so that all elements [0, count) are visited: Value is a vector that begins
// at i or, at the end of the row, the single element i.
template <typename Real, typename Visit>
[[gnu::always_inline]] inline void visit_row(int64_t count, const Visit& visit) {
  int64_t i = 0;
  for (; i + Native<Real>::kLanes <= count; i += Native<Real>::kLanes) {
    visit.template operator()<NativeVector<Real>>(i);
  }
  for (; i < count; ++i) visit.template operator()<Real>(i);
}

// A row is summed in kSumLanes lanes: element i is added to lane i % kSumLanes, and then the upper
// half of the lanes to the lower half until one is left. So vectors of any width give the same
// bits. There are enough lanes for independent additions that hide the latency of an addition.
template <typename Real>
constexpr int64_t kSumLanes = 128 / static_cast<int64_t>(sizeof(Real));

template <typename Real>
inline double sum_by_halves(Real* lanes) {
  for (int64_t width = kSumLanes<Real> / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// totals[k] <- the sum of the terms that visit(i, sums) adds to sums[k] for the elements of a row.
// It is called with a vector of elements that begins at i and vectors `sums`, or with the single
// element i and numbers `sums`.
template <typename Real, int kSums, typename Visit>
[[gnu::always_inline]] inline void sum_terms(int64_t count, double* totals, const Visit& visit) {
  constexpr int64_t kLanes = Native<Real>::kLanes;
  constexpr int64_t kVectors = kSumLanes<Real> / kLanes;
  NativeVector<Real> sums[kVectors][kSums] = {};
  int64_t i = 0;
  for (; i + kSumLanes<Real> <= count; i += kSumLanes<Real>) {
#pragma GCC unroll 8
    for (int64_t vector = 0; vector < kVectors; ++vector) visit(i + vector * kLanes, sums[vector]);
  }
  alignas(kVectorBytes) Real lanes[kSums][kSumLanes<Real>];
#pragma GCC unroll 8
  for (int64_t vector = 0; vector < kVectors; ++vector) {
#pragma GCC unroll 2
    for (int k = 0; k < kSums; ++k) {
      store_native<Real>(sums[vector][k], lanes[k] + vector * kLanes);
    }
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) {
    Real terms[kSums] = {};
    visit(i, terms);
    for (int k = 0; k < kSums; ++k) lanes[k][lane] += terms[k];
  }
  for (int k = 0; k < kSums; ++k) totals[k] = sum_by_halves(lanes[k]);
}

inline double add_row(const void* x, const void* branch, void* to, ElementType type,
                      int64_t count) {
  double total;
  with_types(type, [&]<typename Real, typename Element>() {
    sum_terms<Real, 1>(count, &total, [&]<typename Value>(int64_t i, Value* sum) {
      write<Element>(read<Value, Element>(x, i) + read<Value, Element>(branch, i), to, i);
      sum[0] += read<Value, Element>(to, i);
    });
  });
  return total;
}

inline double sum_row(const void* x, ElementType type, int64_t count) {
  double total;
  with_types(type, [&]<typename Real, typename Element>() {
    sum_terms<Real, 1>(count, &total, [&]<typename Value>(int64_t i, Value* sum) {
      sum[0] += read<Value, Element>(x, i);
    });
  });
  return total;
}

inline double squared_deviations(const void* x, double given_mean, ElementType type,
                                 int64_t count) {
  double total;
  with_types(type, [&]<typename Real, typename Element>() {
    const Real mean = static_cast<Real>(given_mean);
    sum_terms<Real, 1>(count, &total, [&]<typename Value>(int64_t i, Value* sum) {
      const Value deviation = read<Value, Element>(x, i) - mean;
      sum[0] += deviation * deviation;
    });
  });
  return total;
}

// The factor on n.
enum class Multiplier { none, weight, one_and_weight };

// Calls use<Real, Element, kMultiplier>().
template <typename Use>
[[gnu::always_inline]] inline auto with_types_and_multiplier(const NormRow& row, const Use& use) {
  return with_types(row.type, [&]<typename Real, typename Element>() {
    if (!row.weight) return use.template operator()<Real, Element, Multiplier::none>();
    if (row.unit_offset) {
      return use.template operator()<Real, Element, Multiplier::one_and_weight>();
    }
    return use.template operator()<Real, Element, Multiplier::weight>();
  });
}

template <typename Value, typename Real, typename Element, Multiplier kMultiplier>
[[gnu::always_inline]] inline Value multiplied(const Value& value, const NormRow& row, int64_t i) {
  if constexpr (kMultiplier == Multiplier::none) {
    return value;
  } else if constexpr (kMultiplier == Multiplier::weight) {
    return value * read<Value, Element>(row.weight, i);
  } else {
    return value * (read<Value, Element>(row.weight, i) + Real{1});
  }
}

inline void normalize(const NormRow& row, const void* bias, void* to) {
  with_types_and_multiplier(row, [&]<typename Real, typename Element, Multiplier kMultiplier>() {
    const Real mean = static_cast<Real>(row.mean);
    const Real inverse = static_cast<Real>(row.inverse_deviation);
    const auto scaled = [&]<typename Value>(int64_t i) [[gnu::always_inline]] {
      const Value normal = (read<Value, Element>(row.x, i) - mean) * inverse;
      return multiplied<Value, Real, Element, kMultiplier>(normal, row, i);
    };
    if (bias) {
      visit_row<Real>(row.count, [&]<typename Value>(int64_t i) {
        write<Element>(scaled.template operator()<Value>(i) + read<Value, Element>(bias, i), to, i);
      });
    } else {
      visit_row<Real>(row.count, [&]<typename Value>(int64_t i) {
        write<Element>(scaled.template operator()<Value>(i), to, i);
      });
    }
  });
}

template <typename Real, typename Element, Multiplier kMultiplier, bool kBias>
inline NormGradientSums norm_gradient_sums_as(const NormRow& row, const void* gradient,
                                              void* weight_gradient, void* bias_gradient) {
  const Real mean = static_cast<Real>(row.mean);
  const Real inverse = static_cast<Real>(row.inverse_deviation);
  double totals[2];
  sum_terms<Real, 2>(row.count, totals, [&]<typename Value>(int64_t i, Value* sums) {
    const Value normal = (read<Value, Element>(row.x, i) - mean) * inverse;
    const Value slope = read<Value, Element>(gradient, i);
    const Value weighted = multiplied<Value, Real, Element, kMultiplier>(slope, row, i);
    if constexpr (kMultiplier != Multiplier::none) {
      write<Real>(read<Value, Real>(weight_gradient, i) + slope * normal, weight_gradient, i);
    }
    if constexpr (kBias) {
      write<Real>(read<Value, Real>(bias_gradient, i) + slope, bias_gradient, i);
    }
    sums[0] += weighted * normal;
    sums[1] += weighted;
  });
  return {totals[0], totals[1]};
}

inline NormGradientSums norm_gradient_sums(const NormRow& row, const void* gradient,
                                           void* weight_gradient, void* bias_gradient) {
  return with_types_and_multiplier(
      row, [&]<typename Real, typename Element, Multiplier kMultiplier>() {
        return (bias_gradient
                    ? norm_gradient_sums_as<Real, Element, kMultiplier, true>
                    : norm_gradient_sums_as<Real, Element, kMultiplier, false>)(row, gradient,
                                                                                weight_gradient,
                                                                                bias_gradient);
      });
}

inline void norm_input_gradient(const NormRow& row, const void* gradient,
                                const NormGradientSums& means, const void* sum_gradient, void* to) {
  with_types_and_multiplier(row, [&]<typename Real, typename Element, Multiplier kMultiplier>() {
    const Real mean = static_cast<Real>(row.mean);
    const Real inverse = static_cast<Real>(row.inverse_deviation);
    const Real product = static_cast<Real>(means.product);
    const Real weighted = static_cast<Real>(means.weighted);
    const auto of_norm = [&]<typename Value>(int64_t i) [[gnu::always_inline]] {
      const Value normal = (read<Value, Element>(row.x, i) - mean) * inverse;
      const Value slope =
          multiplied<Value, Real, Element, kMultiplier>(read<Value, Element>(gradient, i), row, i);
      return (slope - normal * product - weighted) * inverse;
    };
    if (sum_gradient) {
      visit_row<Real>(row.count, [&]<typename Value>(int64_t i) {
        const Value residual_gradient = read<Value, Element>(sum_gradient, i);
        write<Element>(of_norm.template operator()<Value>(i) + residual_gradient, to, i);
      });
    } else {
      visit_row<Real>(row.count, [&]<typename Value>(int64_t i) {
        write<Element>(of_norm.template operator()<Value>(i), to, i);
      });
    }
  });
}

}  // namespace
}  // namespace colossal::ops::kernels
