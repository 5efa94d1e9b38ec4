#include "colossal/ops/gemm_rate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace colossal::ops {
namespace {

void synchronize(at::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace

double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length, at::Device device) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kRows = 1024, kInner = 768, kColumns = 3072;
  constexpr int kLeast = 3;
  at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kRows, kInner}, at::TensorOptions(type).device(device));
  const at::Tensor b = at::ones({kInner, kColumns}, a.options());
  at::Tensor product = at::mm(a, b);
  synchronize(device);
  double fastest = 0;
  const Clock::time_point end = Clock::now() + length;
  for (int done = 0; done < kLeast || Clock::now() < end; ++done) {
    const Clock::time_point start = Clock::now();
    at::mm_out(product, a, b);
    synchronize(device);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fastest = std::max(fastest, 2.0 * kRows * kInner * kColumns / seconds);
  }
  return fastest;
}

}  // namespace colossal::ops
