// The kernels of every instruction set that this machine has, and numbers to give them.
#pragma once

#include <cstring>
#include <vector>

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

inline constexpr InstructionSet kAllInstructionSets[] = {
    InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512};

inline std::vector<const VectorKernels*> variants() {
  std::vector<const VectorKernels*> found;
  for (const InstructionSet set : kAllInstructionSets) {
    if (const VectorKernels* kernels = vector_kernels(set)) found.push_back(kernels);
  }
  return found;
}

template <typename Real>
std::vector<Real> numbers(int64_t count, uint32_t seed, double spread = 1) {
  std::vector<Real> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<Real>(spread * random_normal({seed, 0}, i, 0)));
  }
  return values;
}

template <typename Value>
bool same_bits(const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Value)) == 0;
}

}  // namespace colossal::ops::kernels
