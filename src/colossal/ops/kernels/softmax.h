// Rows of logits and of attention scores. float64 is computed in double, all else in float.
#pragma once

#include "colossal/base/exact_log.h"
#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/exponential.h"
#include "colossal/ops/kernels/random.h"

namespace colossal::ops::kernels {
namespace {

template <typename Real>
constexpr Real kMinusInfinity = -__builtin_inf();

// A NaN among the elements shows in the sum, not here.
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
inline void cross_entropy_gradient_as(void* row, ElementType type, int64_t count,
                                      const SoftmaxStatistics& statistics, int64_t label) {
  alignas(kVectorBytes) Real buffer[kBlock];
  const Real maximum = static_cast<Real>(statistics.maximum);
  const Real factor = static_cast<Real>(1.0 / statistics.sum);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(row, type, begin, size, buffer);
    for (int64_t i = 0; i < size; ++i) buffer[i] = exponential(buffer[i] - maximum) * factor;
    if (label >= begin && label < begin + size) buffer[label - begin] -= Real{1};
    narrow_block(buffer, size, row, type, begin);
  }
}

inline void cross_entropy_gradient(void* row, ElementType type, int64_t count,
                                   const SoftmaxStatistics& statistics, int64_t label) {
  const bool wide = type == ElementType::float64;
  (wide ? cross_entropy_gradient_as<double> : cross_entropy_gradient_as<float>)(row, type, count,
                                                                                statistics, label);
}

template <typename Real>
inline double attention_probabilities_as(const ScoreRow& row) {
  Real* scores = static_cast<Real*>(row.scores);
  Real factors[kBlock];
  const Real scale = static_cast<Real>(row.scale);
  for (int64_t i = 0; i < row.valid; ++i) scores[i] *= scale;
  const SoftmaxStatistics statistics =
      softmax_statistics_as<Real>(scores, element_type<Real>(), row.valid);
  const Real maximum = static_cast<Real>(statistics.maximum);
  const Real factor = static_cast<Real>(1.0 / statistics.sum);
  for (int64_t i = 0; i < row.valid; ++i) scores[i] = exponential(scores[i] - maximum) * factor;
  for (int64_t i = row.valid; i < row.columns; ++i) scores[i] = 0;
  for (int64_t begin = 0; row.dropout && begin < row.valid; begin += kBlock) {
    const int64_t size = smaller(kBlock, row.valid - begin);
    keep_factors(row.random, *row.dropout, begin, size, factors);
    for (int64_t i = 0; i < size; ++i) scores[begin + i] *= factors[i];
  }
  return logsumexp(statistics);
}

inline double attention_probabilities(const ScoreRow& row) {
  const bool wide = row.type == ElementType::float64;
  return (wide ? attention_probabilities_as<double> : attention_probabilities_as<float>)(row);
}

template <typename Real>
inline void attention_gradient_as(const ScoreRow& row, void* gradient_row, double logsumexp,
                                  double delta) {
  Real* __restrict scores = static_cast<Real*>(row.scores);
  Real* __restrict gradient = static_cast<Real*>(gradient_row);
  Real factors[kBlock];
  const Real scale = static_cast<Real>(row.scale);
  const Real shift = static_cast<Real>(logsumexp);
  const Real mean = static_cast<Real>(delta);
  for (int64_t begin = 0; begin < row.valid; begin += kBlock) {
    const int64_t size = smaller(kBlock, row.valid - begin);
    if (row.dropout) {
      keep_factors(row.random, *row.dropout, begin, size, factors);
    } else {
      for (int64_t i = 0; i < size; ++i) factors[i] = Real{1};
    }
    for (int64_t i = 0; i < size; ++i) {
      const Real probability = exponential(scores[begin + i] * scale - shift);
      scores[begin + i] = probability * factors[i];
      gradient[begin + i] = probability * (gradient[begin + i] * factors[i] - mean) * scale;
    }
  }
  for (int64_t i = row.valid; i < row.columns; ++i) scores[i] = gradient[i] = 0;
}

inline void attention_gradient(const ScoreRow& row, void* gradient, double logsumexp,
                               double delta) {
  const bool wide = row.type == ElementType::float64;
  (wide ? attention_gradient_as<double> : attention_gradient_as<float>)(row, gradient, logsumexp,
                                                                        delta);
}

}  // namespace
}  // namespace colossal::ops::kernels
