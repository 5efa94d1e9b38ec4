#include "colossal/ops/optimizer_kernels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <atomic>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

// Elements per piece. A thread processes whole pieces, and sums of pieces are added in order. A
// multiple of the block size of every kernel.
constexpr int64_t kPiece = 1 << 16;

void check_flat(const at::Tensor& tensor, int64_t count) {
  COLOSSAL_CHECK(tensor.dim() == 1 && tensor.is_contiguous() && tensor.numel() == count,
                 "a flat tensor of {} elements is needed; this has {} dims and {} elements", count,
                 tensor.dim(), tensor.numel());
}

int64_t pieces_of(int64_t count) {
  return (count + kPiece - 1) / kPiece;
}

// Calls run(begin, end) for each piece, on several threads.
template <typename Run>
void for_each_piece(int64_t count, const Run& run) {
  parallel_for(0, pieces_of(count), 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      run(piece * kPiece, std::min(count, (piece + 1) * kPiece));
    }
  });
}

const char* element(const at::Tensor& tensor, int64_t index) {
  return static_cast<const char*>(tensor.const_data_ptr()) + index * tensor.element_size();
}

char* mutable_element(const at::Tensor& tensor, int64_t index) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + index * tensor.element_size();
}

void adamw_cpu(const at::Tensor& master, const std::optional<at::Tensor>& working,
               const at::Tensor& first_moment, const at::Tensor& second_moment,
               const at::Tensor& gradient, double gradient_scale, double beta1, double beta2,
               double decay, double step_size, double root_correction, double epsilon) {
  const kernels::AdamWArrays arrays =
      adamw_arrays(master, working, first_moment, second_moment, gradient);
  const kernels::AdamWFactors factors{gradient_scale, beta1,           beta2,  decay,
                                      step_size,      root_correction, epsilon};
  for_each_piece(master.numel(), [&](int64_t begin, int64_t end) {
    kernels::vector_kernels().adamw(arrays, begin, end, factors);
  });
}

void adamw_meta(const at::Tensor&, const std::optional<at::Tensor>&, const at::Tensor&,
                const at::Tensor&, const at::Tensor&, double, double, double, double, double,
                double, double) {}

void accumulate_cpu(const at::Tensor& to, const at::Tensor& from) {
  const auto to_type = element_type(to.scalar_type());
  const auto from_type = element_type(from.scalar_type());
  for_each_piece(to.numel(), [&](int64_t begin, int64_t end) {
    kernels::vector_kernels().accumulate(element(from, begin), from_type,
                                         mutable_element(to, begin), to_type, end - begin);
  });
}

void accumulate_meta(const at::Tensor&, const at::Tensor&) {}

void convert_copy_cpu(const at::Tensor& to, const at::Tensor& from, double scale) {
  const auto to_type = element_type(to.scalar_type());
  const auto from_type = element_type(from.scalar_type());
  for_each_piece(to.numel(), [&](int64_t begin, int64_t end) {
    kernels::vector_kernels().convert(element(from, begin), from_type, mutable_element(to, begin),
                                      to_type, end - begin, scale);
  });
}

void convert_copy_meta(const at::Tensor&, const at::Tensor&, double) {}

at::Tensor squared_norm_cpu(const at::Tensor& values) {
  const auto type = element_type(values.scalar_type());
  std::vector<double> sums(pieces_of(values.numel()));
  for_each_piece(values.numel(), [&](int64_t begin, int64_t end) {
    sums[begin / kPiece] =
        kernels::vector_kernels().squared_norm(element(values, begin), type, end - begin);
  });
  double sum = 0;
  for (const double piece : sums) sum += piece;
  return at::scalar_tensor(sum, values.options().dtype(at::kDouble));
}

at::Tensor squared_norm_meta(const at::Tensor& values) {
  return at::empty({}, values.options().dtype(at::kDouble));
}

bool all_finite_cpu(const at::Tensor& values) {
  const auto type = element_type(values.scalar_type());
  std::atomic<bool> finite = true;
  for_each_piece(values.numel(), [&](int64_t begin, int64_t end) {
    if (!finite) return;
    if (!kernels::vector_kernels().all_finite(element(values, begin), type, end - begin)) {
      finite = false;
    }
  });
  return finite;
}

bool all_finite_meta(const at::Tensor&) {
  return true;
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "adamw_(Tensor(a!) master, Tensor(b!)? working, Tensor(c!) first_moment, "
      "Tensor(d!) second_moment, Tensor gradient, float gradient_scale, float beta1, float beta2, "
      "float decay, float step_size, float root_correction, float epsilon) -> ()");
  m.def("accumulate_(Tensor(a!) to, Tensor from) -> ()");
  m.def("convert_copy_(Tensor(a!) to, Tensor from, float scale) -> ()");
  m.def("squared_norm(Tensor values) -> Tensor");
  m.def("all_finite(Tensor values) -> bool");
}

TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("adamw_", adamw_cpu);
  m.impl("accumulate_", accumulate_cpu);
  m.impl("convert_copy_", convert_copy_cpu);
  m.impl("squared_norm", squared_norm_cpu);
  m.impl("all_finite", all_finite_cpu);
}

TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("adamw_", aten_fallback::adamw);
  m.impl("accumulate_", aten_fallback::accumulate);
  m.impl("convert_copy_", aten_fallback::convert_copy);
  m.impl("squared_norm", aten_fallback::squared_norm);
  m.impl("all_finite", aten_fallback::all_finite);
}

TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("adamw_", adamw_meta);
  m.impl("accumulate_", accumulate_meta);
  m.impl("convert_copy_", convert_copy_meta);
  m.impl("squared_norm", squared_norm_meta);
  m.impl("all_finite", all_finite_meta);
}

}  // namespace

void adamw(const at::Tensor& master, const at::Tensor& working, const at::Tensor& first_moment,
           const at::Tensor& second_moment, const at::Tensor& gradient,
           const AdamWScalars& scalars) {
  for (const at::Tensor& tensor : {master, first_moment, second_moment, gradient}) {
    check_flat(tensor, master.numel());
  }
  if (working.defined()) check_flat(working, master.numel());
  COLOSSAL_CHECK(compute_type(master.scalar_type()) == master.scalar_type(), "master of type {}",
                 c10::toString(master.scalar_type()));
  COLOSSAL_CHECK(first_moment.scalar_type() == second_moment.scalar_type(),
                 "moments of types {} and {}", c10::toString(first_moment.scalar_type()),
                 c10::toString(second_moment.scalar_type()));
  static const auto op = find_operator<decltype(adamw_cpu)>("colossal::adamw_");
  const auto update = static_cast<double>(scalars.update);
  op.call(master, working.defined() ? std::optional(working) : std::nullopt, first_moment,
          second_moment, gradient, scalars.gradient_scale, scalars.beta1, scalars.beta2,
          1 - scalars.learning_rate * scalars.weight_decay,
          scalars.learning_rate / (1 - std::pow(scalars.beta1, update)),
          std::sqrt(1 - std::pow(scalars.beta2, update)), scalars.epsilon);
}

void accumulate(const at::Tensor& to, const at::Tensor& from) {
  check_flat(to, to.numel());
  check_flat(from, to.numel());
  static const auto op = find_operator<decltype(accumulate_cpu)>("colossal::accumulate_");
  op.call(to, from);
}

void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale) {
  check_flat(to, to.numel());
  check_flat(from, to.numel());
  static const auto op = find_operator<decltype(convert_copy_cpu)>("colossal::convert_copy_");
  op.call(to, from, scale);
}

at::Tensor squared_norm(const at::Tensor& values) {
  check_flat(values, values.numel());
  static const auto op = find_operator<decltype(squared_norm_cpu)>("colossal::squared_norm");
  return op.call(values);
}

bool all_finite(const at::Tensor& values) {
  check_flat(values, values.numel());
  static const auto op = find_operator<decltype(all_finite_cpu)>("colossal::all_finite");
  return op.call(values);
}

}  // namespace colossal::ops
