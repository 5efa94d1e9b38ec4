// The kernels of VectorKernels for a row of layer norm (J. L. Ba et al., "Layer Normalization",
// 2016) or of RMS norm (B. Zhang and R. Sennrich, "Root Mean Square Layer Normalization", 2019):
// add_row(), sum_row(), squared_deviations(), normalize(), norm_gradient_sums() and
// norm_input_gradient(). vector_kernels.h describes their parameters and NormRow in full; the
// comments below say in short what each computes. Each kernel passes once over the row. A caller
// calls several kernels for one row, while the row is in the first-level cache.
#pragma once

#include <type_traits>

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// Returns element i of a row, or the vector of elements that begins at i, converted to the compute
// type. Element: the type in memory; a type of 2 bytes is bf16. Value: the compute type (one
// element is read), or a NativeVector of it (a vector is read).
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

// Writes `value`, a number or a vector, to element i of a row or to the elements from i on, rounded
// to Element.
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

// Calls use<Real, Element>() for rows of type `type`, and returns its result. Real: the compute
// type. Element: the type in memory.
template <typename Use>
[[gnu::always_inline]] inline auto with_types(ElementType type, const Use& use) {
  if (type == ElementType::float64) return use.template operator()<double, double>();
  if (type == ElementType::float32) return use.template operator()<float, float>();
  return use.template operator()<float, uint16_t>();
}

// Visits all elements [0, count) of a row. Calls visit<NativeVector<Real>>(i) for each whole vector
// of elements, which begins at i. Then calls visit<Real>(i) for each remaining element i.
template <typename Real, typename Visit>
[[gnu::always_inline]] inline void visit_row(int64_t count, const Visit& visit) {
  int64_t i = 0;
  for (; i + Native<Real>::kLanes <= count; i += Native<Real>::kLanes) {
    visit.template operator()<NativeVector<Real>>(i);
  }
  for (; i < count; ++i) visit.template operator()<Real>(i);
}

// A row is summed in kSumLanes partial sums: element i is added to partial sum i % kSumLanes. Then
// sum_by_halves() adds the partial sums. This order does not depend on the width of a vector, so
// all instruction sets give the same bits. There are enough partial sums to hide the latency of an
// addition.
template <typename Real>
constexpr int64_t kSumLanes = 128 / static_cast<int64_t>(sizeof(Real));

// Returns the sum of lanes[0, kSumLanes). Adds the upper half of the lanes to the lower half until
// one number is left. Overwrites `lanes`.
template <typename Real>
inline double sum_by_halves(Real* lanes) {
  for (int64_t width = kSumLanes<Real> / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// Computes kSums sums over the elements [0, count) of a row, and writes them to totals[0, kSums).
// Calls visit(i, sums), which must add the terms of element i to sums[0, kSums). If `sums` points
// to vectors, visit() must add the terms of the vector of elements that begins at i instead.
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

// to[i] = x[i] + branch[i], rounded to `type`, for i in [0, count). Returns the sum of the rounded
// to[i].
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

// Returns the sum of x[i], for i in [0, count).
inline double sum_row(const void* x, ElementType type, int64_t count) {
  double total;
  with_types(type, [&]<typename Real, typename Element>() {
    sum_terms<Real, 1>(count, &total, [&]<typename Value>(int64_t i, Value* sum) {
      sum[0] += read<Value, Element>(x, i);
    });
  });
  return total;
}

// Returns the sum of (x[i] - given_mean)^2, for i in [0, count). given_mean: 0 for RMS norm.
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

// In the following functions, n = (x - mean) * inverse_deviation is the normalized row of a
// NormRow (mean is 0 for RMS norm). The norm's output is n * f, plus a bias if there is one. The
// factor f is 1 if row.weight is null, 1 + weight if row.unit_offset, else weight.

// The kind of the factor f: 1, weight, or 1 + weight.
enum class Multiplier { none, weight, one_and_weight };

// Calls use<Real, Element, kMultiplier>() with the types and the Multiplier of `row`, and returns
// its result.
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

// Returns `value`, which belongs to element i or to the vector of elements from i on, times the
// factor of the row.
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

// to[i] = n[i] * f[i] + bias[i]. bias: null: none.
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

// Returns the sums over the row of gradient * f * n (NormGradientSums::product) and of gradient * f
// (weighted). gradient: of the norm's output. Also adds gradient[i] * n[i] to weight_gradient[i] if
// row.weight is not null, and gradient[i] to bias_gradient[i] if bias_gradient is not null; both
// arrays are in the compute type. kBias: whether bias_gradient is not null.
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

// Calls norm_gradient_sums_as() for the types and the Multiplier of `row`.
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

// to[i] = the gradient of x[i], plus sum_gradient[i] if sum_gradient is not null. gradient: of the
// norm's output. means: the results of norm_gradient_sums(), summed over the ranks that share the
// row and divided by its number of features on all these ranks; means.weighted must be 0 for RMS
// norm.
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
