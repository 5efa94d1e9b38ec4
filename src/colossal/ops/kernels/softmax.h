// The kernels of VectorKernels (vector_kernels.h) for softmax and cross-entropy of a row of logits,
// `count` elements of `type`:
//   softmax_statistics()      returns the maximum of the row and the sum of exp(row[i] - maximum)
//   logsumexp()               returns ln(sum of exp(row[i])) of the row with these statistics
//   cap_row()                 row[i] <- cap * tanh(row[i] / cap)
//   cross_entropy_gradient()  row[i] <- exp(row[i] - maximum) / sum - (i == label ? 1 : 0), with
//                             the maximum and the sum in `statistics`. If cap is not 0, `row` must
//                             have passed through cap_row() before, and the result is multiplied by
//                             the derivative of the cap, 1 - (row[i] / cap)^2, with row[i] before
//                             it is overwritten. `row` may be a part of a row, with the statistics
//                             of the whole row; so the label may be outside [0, count)
// A function ..._as<Real>() is the kernel for the compute type Real.
//
// Exponentials are computed in the compute type (fp64 for float64, otherwise fp32). Within a
// block of 512 elements, each lane of the vectors is summed in the compute type. The sums of the
// lanes and of the blocks are added in fp64.
#pragma once

#include "colossal/base/exact_log.h"
#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/exponential.h"
#include "colossal/ops/kernels/hyperbolic_tangent.h"

namespace colossal::ops::kernels {
namespace {

template <typename Real>
constexpr Real kMinusInfinity = -__builtin_inf();

// Returns the largest of `count` elements, -infinity if there are none. NaN elements may be
// ignored; they make the sum of exponentials NaN in any case.
template <typename Real>
inline Real maximum_of(const void* row, ElementType type, int64_t count) {
  using Lanes = Vector<Real>;
  alignas(kVectorBytes) Real buffer[kBlock];
  typename Lanes::Type largest = {};
  for (int64_t lane = 0; lane < Lanes::kLanes; ++lane) largest[lane] = kMinusInfinity<Real>;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(row, type, begin, size, buffer);
    pad_block(buffer, size, kMinusInfinity<Real>);
    for (int64_t i = 0; i < size; i += Lanes::kLanes) {
      const auto x = load_vector(buffer + i);
      largest = x <= largest ? largest : x;
    }
  }
  Real result = kMinusInfinity<Real>;
  for (int64_t lane = 0; lane < Lanes::kLanes; ++lane) {
    result = largest[lane] <= result ? result : largest[lane];
  }
  return result;
}

// Returns the sum of block[0, count). Pads the block with zeros up to whole vectors.
template <typename Real>
inline double sum_of_block(Real* block, int64_t count) {
  using Lanes = Vector<Real>;
  pad_block(block, count, Real{0});
  typename Lanes::Type sum = {};
  for (int64_t i = 0; i < count; i += Lanes::kLanes) sum += load_vector(block + i);
  return sum_lanes<Real>(sum);
}

template <typename Real>
inline SoftmaxStatistics softmax_statistics_as(const void* row, ElementType type, int64_t count) {
  alignas(kVectorBytes) Real buffer[kBlock];
  const Real maximum = maximum_of<Real>(row, type, count);
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(row, type, begin, size, buffer);
    for (int64_t i = 0; i < size; ++i) buffer[i] = exponential(buffer[i] - maximum);
    sum += sum_of_block(buffer, size);
  }
  return {maximum, sum};
}

inline SoftmaxStatistics softmax_statistics(const void* row, ElementType type, int64_t count) {
  const bool wide = type == ElementType::float64;
  return (wide ? softmax_statistics_as<double> : softmax_statistics_as<float>)(row, type, count);
}

inline double logsumexp(const SoftmaxStatistics& statistics) {
  const bool finite = statistics.sum - statistics.sum == 0;
  return statistics.maximum + (finite ? exact_log(statistics.sum) : statistics.sum);
}

template <typename Real>
inline void cap_row_as(void* row, ElementType type, int64_t count, double given_cap) {
  alignas(kVectorBytes) Real buffer[kBlock];
  const Real cap = static_cast<Real>(given_cap), per_cap = static_cast<Real>(1 / given_cap);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(row, type, begin, size, buffer);
    pad_block(buffer, size, Real{0});
    for (int64_t i = 0; i < size; i += Native<Real>::kLanes) {
      store_native(cap * hyperbolic_tangent(load_native(buffer + i) * per_cap), buffer + i);
    }
    narrow_block(buffer, size, row, type, begin);
  }
}

inline void cap_row(void* row, ElementType type, int64_t count, double cap) {
  const bool wide = type == ElementType::float64;
  (wide ? cap_row_as<double> : cap_row_as<float>)(row, type, count, cap);
}

template <typename Real, bool kCapped>
inline void cross_entropy_gradient_as(void* row, ElementType type, int64_t count,
                                      const SoftmaxStatistics& statistics, int64_t label,
                                      double cap) {
  alignas(kVectorBytes) Real buffer[kBlock];
  alignas(kVectorBytes) Real slopes[kBlock];
  const Real maximum = static_cast<Real>(statistics.maximum);
  const Real factor = static_cast<Real>(1.0 / statistics.sum);
  const Real per_cap = static_cast<Real>(kCapped ? 1 / cap : 0);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(row, type, begin, size, buffer);
    if constexpr (kCapped) {
      for (int64_t i = 0; i < size; ++i) {
        const Real share = buffer[i] * per_cap;
        slopes[i] = Real{1} - share * share;
      }
    }
    for (int64_t i = 0; i < size; ++i) buffer[i] = exponential(buffer[i] - maximum) * factor;
    if (label >= begin && label < begin + size) buffer[label - begin] -= Real{1};
    if constexpr (kCapped) {
      for (int64_t i = 0; i < size; ++i) buffer[i] *= slopes[i];
    }
    narrow_block(buffer, size, row, type, begin);
  }
}

inline void cross_entropy_gradient(void* row, ElementType type, int64_t count,
                                   const SoftmaxStatistics& statistics, int64_t label, double cap) {
  if (type == ElementType::float64) {
    (cap == 0 ? cross_entropy_gradient_as<double, false>
              : cross_entropy_gradient_as<double, true>)(row, type, count, statistics, label, cap);
  } else {
    (cap == 0 ? cross_entropy_gradient_as<float, false>
              : cross_entropy_gradient_as<float, true>)(row, type, count, statistics, label, cap);
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
