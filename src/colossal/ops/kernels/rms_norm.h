// One row of RMS norm (B. Zhang and R. Sennrich, "Root Mean Square Layer Normalization", 2019): y =
// weight * x / rms(x), rms(x) = sqrt(mean(x^2) + epsilon).
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/flat.h"

namespace colossal::ops::kernels {
namespace {

template <typename Real>
inline void scale_row(const void* x, const void* weight, void* to, ElementType type, int64_t count,
                      double inverse_rms) {
  alignas(kVectorBytes) Real row[kBlock];
  alignas(kVectorBytes) Real weights[kBlock];
  const Real inverse = static_cast<Real>(inverse_rms);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(x, type, begin, size, row);
    widen_block(weight, type, begin, size, weights);
    for (int64_t i = 0; i < size; ++i) row[i] = row[i] * inverse * weights[i];
    narrow_block(row, size, to, type, begin);
  }
}

inline double rms_norm(const void* x, const void* weight, void* to, ElementType type, int64_t count,
                       double epsilon) {
  const double inverse_rms =
      1 / __builtin_sqrt(squared_norm(x, type, count) / static_cast<double>(count) + epsilon);
  const bool wide = type == ElementType::float64;
  (wide ? scale_row<double> : scale_row<float>)(x, weight, to, type, count, inverse_rms);
  return inverse_rms;
}

// With n = x / rms: weight's gradient is gradient * n, x's (u - n mean(u n)) / rms for u = gradient
// * weight.
template <typename Real>
inline void rms_norm_backward_as(const void* gradient, const void* x, const void* weight,
                                 double inverse_rms, void* x_gradient, ElementType type,
                                 int64_t count, void* weight_gradient) {
  constexpr int64_t kLanes = Vector<Real>::kLanes;
  alignas(kVectorBytes) Real gradients[kBlock];
  alignas(kVectorBytes) Real row[kBlock];
  alignas(kVectorBytes) Real weights[kBlock];
  Real* const sums = static_cast<Real*>(weight_gradient);
  const Real inverse = static_cast<Real>(inverse_rms);
  double product = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(gradient, type, begin, size, gradients);
    widen_block(x, type, begin, size, row);
    widen_block(weight, type, begin, size, weights);
    for (int64_t i = 0; i < size; ++i) {
      row[i] = gradients[i] * (row[i] * inverse);
      sums[begin + i] += row[i];
      row[i] = row[i] * weights[i];
    }
    pad_block(row, size, Real{0});
    typename Vector<Real>::Type total = {};
    for (int64_t i = 0; i < size; i += kLanes) total += load_vector(row + i);
    product += sum_lanes<Real>(total);
  }
  const Real mean = static_cast<Real>(product / static_cast<double>(count));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(gradient, type, begin, size, gradients);
    widen_block(x, type, begin, size, row);
    widen_block(weight, type, begin, size, weights);
    for (int64_t i = 0; i < size; ++i) {
      row[i] = (gradients[i] * weights[i] - row[i] * inverse * mean) * inverse;
    }
    narrow_block(row, size, x_gradient, type, begin);
  }
}

inline void rms_norm_backward(const void* gradient, const void* x, const void* weight,
                              double inverse_rms, void* x_gradient, ElementType type, int64_t count,
                              void* weight_gradient) {
  const bool wide = type == ElementType::float64;
  (wide ? rms_norm_backward_as<double> : rms_norm_backward_as<float>)(gradient, x, weight,
                                                                      inverse_rms, x_gradient, type,
                                                                      count, weight_gradient);
}

}  // namespace
}  // namespace colossal::ops::kernels
