// Tensors for the tests of operators, and how close two must be.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "colossal/ops/random.h"

namespace colossal::ops {

// Ids of the samples of a batch of three.
inline const std::vector<int64_t> kSamples = {3, 1'000'000, 7};

// Normal numbers, the same in every run.
inline at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type, uint64_t seed) {
  at::Tensor values = at::empty(sizes, at::kDouble);
  fill_normal(values, 0, random_key(seed, 0, "test"), 0, 1);
  return values.to(type);
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
}

// |a - b| <= tolerance * |b| in the Euclidean norm.
inline void expect_near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  ASSERT_EQ(a.sizes(), b.sizes());
  if (b.numel() == 0) return;
  EXPECT_LE(distance(a, b), tolerance * b.to(at::kDouble).norm().item<double>());
}

// Rounding errors that a few operations make in this type.
inline double tolerance_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-13 : type == at::kFloat ? 2e-6 : 2e-2;
}

inline std::vector<at::ScalarType> all_types() {
  return {at::kDouble, at::kFloat, at::kBFloat16};
}

// What a meta kernel must tell of its real counterpart.
inline void expect_same_shape(const at::Tensor& meta, const at::Tensor& real) {
  ASSERT_EQ(meta.defined(), real.defined());
  if (!real.defined()) return;
  EXPECT_TRUE(meta.is_meta());
  EXPECT_EQ(meta.sizes(), real.sizes());
  EXPECT_EQ(meta.scalar_type(), real.scalar_type());
  EXPECT_EQ(meta.strides(), real.strides());
}

}  // namespace colossal::ops
