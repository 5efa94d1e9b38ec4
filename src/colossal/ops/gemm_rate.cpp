#include "colossal/ops/gemm_rate.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>

namespace colossal::ops {

double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kRows = 1024, kInner = 768, kColumns = 3072;
  constexpr int kLeast = 3;
  at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kRows, kInner}, type);
  const at::Tensor b = at::ones({kInner, kColumns}, type);
  at::Tensor product = at::mm(a, b);
  double fastest = 0;
  const Clock::time_point end = Clock::now() + length;
  for (int done = 0; done < kLeast || Clock::now() < end; ++done) {
    const Clock::time_point start = Clock::now();
    at::mm_out(product, a, b);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fastest = std::max(fastest, 2.0 * kRows * kInner * kColumns / seconds);
  }
  return fastest;
}

}  // namespace colossal::ops
