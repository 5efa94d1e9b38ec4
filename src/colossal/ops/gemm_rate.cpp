#include "colossal/ops/gemm_rate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
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
  using Seconds = std::chrono::duration<double>;
  constexpr int64_t kRows = 1024, kInner = 768, kColumns = 3072;
  constexpr int kLeast = 3;
  at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({kRows, kInner}, at::TensorOptions(type).device(device));
  const at::Tensor b = at::ones({kInner, kColumns}, a.options());
  at::Tensor product = at::empty({kRows, kColumns}, a.options());
  const auto multiply = [&](int64_t rows) {
    at::Tensor result = product.narrow(0, 0, rows);
    const auto start = std::chrono::steady_clock::now();
    at::mm_out(result, a.narrow(0, 0, rows), b);
    synchronize(device);
    return Seconds(std::chrono::steady_clock::now() - start);
  };
  multiply(1);  // warm-up
  // Begins with few rows: for a type that the machine only emulates, the full size would take
  // minutes.
  int64_t rows = kRows / 64;
  while (rows < kRows && multiply(rows) * 4 * kLeast <= length) rows *= 4;
  multiply(rows);
  double fastest = 0;
  Seconds spent{};
  for (int done = 0; done < kLeast || spent < length; ++done) {
    const Seconds seconds = multiply(rows);
    spent += seconds;
    fastest =
        std::max(fastest, 2.0 * static_cast<double>(rows * kInner * kColumns) / seconds.count());
  }
  return fastest;
}

}  // namespace colossal::ops
