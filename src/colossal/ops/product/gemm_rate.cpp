#include "colossal/ops/product/gemm_rate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace colossal::ops {
namespace {

struct Sizes {
  int64_t rows, inner, columns;
};

void synchronize(at::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace

double measure_gemm_rate(at::ScalarType type, std::chrono::milliseconds length, at::Device device) {
  using Seconds = std::chrono::duration<double>;
  const Sizes sizes = device.is_cpu() ? Sizes{1024, 768, 3072} : Sizes{8192, 8192, 8192};
  constexpr int kLeast = 3;
  at::NoGradGuard no_grad;
  // Random numbers: a GPU multiplies zeros and ones faster.
  const at::Tensor a = at::rand({sizes.rows, sizes.inner}, at::TensorOptions(type).device(device));
  const at::Tensor b = at::rand({sizes.inner, sizes.columns}, a.options());
  at::Tensor product = at::empty({sizes.rows, sizes.columns}, a.options());
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
  int64_t rows = sizes.rows / 64;
  while (rows < sizes.rows && multiply(rows) * 4 * kLeast <= length) rows *= 4;
  multiply(rows);
  double fastest = 0;
  Seconds spent{};
  for (int done = 0; done < kLeast || spent < length; ++done) {
    const Seconds seconds = multiply(rows);
    spent += seconds;
    fastest = std::max(
        fastest, 2.0 * static_cast<double>(rows * sizes.inner * sizes.columns) / seconds.count());
  }
  return fastest;
}

}  // namespace colossal::ops
