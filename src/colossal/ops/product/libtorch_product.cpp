#include "colossal/ops/product/libtorch_product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "colossal/base/cpu_features.h"

namespace colossal::ops {
namespace {

constexpr int64_t kMostMultiplications = int64_t{1} << 26;
constexpr int64_t kMostNumbers = int64_t{1} << 22;  // of an operand or a result

enum class ProductForm : uint8_t { write, write_with_bias, add };

struct StridedMatrix {
  std::vector<int64_t> sizes, strides;

  explicit StridedMatrix(const at::Tensor& x)
      : sizes(x.sizes().vec()), strides(x.strides().vec()) {}
  auto operator<=>(const StridedMatrix&) const = default;

  // Numbers of memory from the first to the last.
  int64_t extent() const { return 1 + (sizes[0] - 1) * strides[0] + (sizes[1] - 1) * strides[1]; }
  at::Tensor zeros() const { return at::empty_strided(sizes, strides, at::kBFloat16).zero_(); }
};

// What oneDNN's choice of scratch depends on.
struct ProductProblem {
  ProductForm form;
  bool has_factor;
  StridedMatrix to, a, b;
  int threads;

  auto operator<=>(const ProductProblem&) const = default;

  bool is_small() const {
    return to.sizes[0] * to.sizes[1] * a.sizes[1] <= kMostMultiplications &&
           std::max({to.extent(), a.extent(), b.extent()}) <= kMostNumbers;
  }
};

void multiply_by_libtorch(ProductForm form, at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& bias, double factor) {
  switch (form) {
    case ProductForm::write:
      at::mm_out(to, a, b);
      return;
    case ProductForm::write_with_bias:
      at::addmm_out(to, bias, a, b);
      return;
    case ProductForm::add:
      if (to.scalar_type() == a.scalar_type()) {
        to.addmm_(a, b, /*beta=*/1, factor);
      } else {
        at::addmm_out(to, to, a, b, to.scalar_type(), /*beta=*/1, factor);
      }
      return;
  }
}

// Bytes that LibTorch has allocated on the CPU on the thread that holds this as its debug
// information.
class AllocatedBytes final : public c10::MemoryReportingInfoBase {
 public:
  int64_t most() const { return most_; }

 private:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    live_ += bytes;
    most_ = std::max(most_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t live_ = 0, most_ = 0;
};

// Multiplies zeros, on a thread of its own, where nothing counts or records.
int64_t measured_scratch(const ProductProblem& problem) {
  const auto measure = [&] {
    at::set_num_threads(problem.threads);
    const at::Tensor to = problem.to.zeros(), a = problem.a.zeros(), b = problem.b.zeros();
    const at::Tensor bias = at::zeros({to.size(1)}, to.options());
    const auto allocated = std::make_shared<AllocatedBytes>();
    const c10::DebugInfoGuard watching(c10::DebugInfoKind::PROFILER_STATE, allocated);
    multiply_by_libtorch(problem.form, to, a, b, bias, problem.has_factor ? 2 : 1);
    return allocated->most();
  };
  return std::async(std::launch::async, measure).get();
}

// Measured once for each problem: a pure function, whose values are kept.
int64_t scratch_bytes(const ProductProblem& problem) {
  static std::mutex mutex;
  static std::map<ProductProblem, int64_t> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(problem, 0);
  if (is_new) found->second = measured_scratch(problem);
  return found->second;
}

void allocate_scratch(ProductForm form, const at::Tensor& to, const at::Tensor& a,
                      const at::Tensor& b, double factor) {
  if (a.scalar_type() != at::kBFloat16 || !has_bf16_instructions()) return;
  if (to.numel() == 0 || a.numel() == 0) return;
  const ProductProblem problem{form,
                               factor != 1,
                               StridedMatrix(to),
                               StridedMatrix(a),
                               StridedMatrix(b),
                               at::get_num_threads()};
  if (!problem.is_small()) return;
  if (const int64_t bytes = scratch_bytes(problem)) c10::GetAllocator(c10::kMeta)->allocate(bytes);
}

void multiply_and_count(ProductForm form, const at::Tensor& to, const at::Tensor& a,
                        const at::Tensor& b, const at::Tensor& bias, double factor) {
  if (to.is_meta()) allocate_scratch(form, to, a, b, factor);
  multiply_by_libtorch(form, to, a, b, bias, factor);
}

}  // namespace

void libtorch_product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& bias) {
  multiply_and_count(bias.defined() ? ProductForm::write_with_bias : ProductForm::write, to, a, b,
                     bias, 1);
}

void add_libtorch_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b, double factor) {
  multiply_and_count(ProductForm::add, sum, a, b, {}, factor);
}

}  // namespace colossal::ops
