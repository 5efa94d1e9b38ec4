#include "colossal/ops/product/bf16_block.h"

#include <ATen/native/CPUBlas.h>

#include <vector>

#include "colossal/base/cpu_features.h"

namespace colossal::ops {
namespace {

void brgemm_product(int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride,
                    int64_t c_stride, bool add, const at::BFloat16* a, const at::BFloat16* b,
                    float* c) {
  at::native::cpublas::brgemm(m, n, k, a_stride, b_stride, c_stride, add, a, b, c, true);
}

// Returns whether brgemm() multiplies correctly. brgemm() throws on CPUs without bf16 instructions,
// and its requirements on operands differ between versions of LibTorch. So this tries it once, on
// numbers whose sums are exact.
bool brgemm_works() {
  if (!has_bf16_instructions()) return false;
  constexpr int64_t kM = 5, kN = 32, kK = 6;
  std::vector<at::BFloat16> a, b(kK * kN);
  std::vector<float> expected(kM * kN, 1.0F), found = expected;
  for (int64_t i = 0; i < kM * kK; ++i) a.emplace_back(static_cast<float>(i - 7));
  for (int64_t k = 0; k < kK; ++k) {
    for (int64_t n = 0; n < kN; ++n) {
      const auto number = static_cast<float>((k * kN + n) % 97);
      b[(k / 2 * kN + n) * 2 + k % 2] = number;
      for (int64_t m = 0; m < kM; ++m) {
        expected[m * kN + n] += static_cast<float>(a[m * kK + k]) * number;
      }
    }
  }
  try {
    brgemm_product(kM, kN, kK, kK, kN, kN, true, a.data(), b.data(), found.data());
    release_bf16_block_product();
  } catch (const c10::Error&) {
    return false;
  }
  return found == expected;
}

}  // namespace

Bf16Product bf16_block_product() {
  static const Bf16Product product = brgemm_works() ? brgemm_product : nullptr;
  return product;
}

void release_bf16_block_product() {
  at::native::cpublas::brgemm_release(true);
}

}  // namespace colossal::ops
