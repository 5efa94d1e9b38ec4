#include "colossal/ops/attention/block_softmax.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cstring>
#include <vector>

#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

double logit(const char* row, kernels::ElementType type, int64_t index) {
  if (type == kernels::ElementType::float64) return reinterpret_cast<const double*>(row)[index];
  if (type == kernels::ElementType::float32) return reinterpret_cast<const float*>(row)[index];
  return reinterpret_cast<const at::BFloat16*>(row)[index];
}

// Computes logits <- soft_cap * tanh(logits / soft_cap) in place. logits: [tokens, rows].
void cap_cpu(const at::Tensor& logits, double soft_cap) {
  const auto type = element_type(logits.scalar_type());
  const int64_t row_bytes = logits.size(1) * logits.element_size();
  auto* const data = static_cast<char*>(logits.mutable_data_ptr());
  parallel_for(0, logits.size(0), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      kernels::vector_kernels().cap_row(data + i * row_bytes, type, logits.size(1), soft_cap);
    }
  });
}

// Returns the derivative of the cap, from the capped logits.
at::Tensor slope_of_cap(const at::Tensor& capped, double soft_cap) {
  return 1 - (capped / soft_cap).square();
}

at::Tensor losses_cpu(const at::Tensor& logits, const at::Tensor& label_tensor, double soft_cap,
                      bool gradient) {
  const int64_t vocabulary = logits.size(1);
  const int64_t* labels = label_tensor.const_data_ptr<int64_t>();
  const auto type = element_type(logits.scalar_type());
  const int64_t row_bytes = vocabulary * logits.element_size();
  char* data = static_cast<char*>(logits.mutable_data_ptr());
  std::vector<double> losses(logits.size(0));
  parallel_for(0, logits.size(0), 1, [&](int64_t first, int64_t last) {
    const kernels::VectorKernels& kernel = kernels::vector_kernels();
    for (int64_t i = first; i < last; ++i) {
      char* row = data + i * row_bytes;
      if (labels[i] == kIgnoredLabel) {
        if (gradient) std::memset(row, 0, row_bytes);
        continue;
      }
      const kernels::SoftmaxStatistics statistics =
          kernel.softmax_statistics(row, type, vocabulary);
      losses[i] = kernel.logsumexp(statistics) - logit(row, type, labels[i]);
      if (!gradient) continue;
      kernel.cross_entropy_gradient(row, type, vocabulary, statistics, labels[i], soft_cap);
    }
  });
  double sum = 0;  // in a fixed order, so that its bits do not depend on threads
  for (const double loss : losses) sum += loss;
  return at::scalar_tensor(sum, at::kDouble);
}

at::Tensor losses_meta(const at::Tensor& labels) {
  return at::empty({}, labels.options().dtype(at::kDouble));
}

at::Tensor statistics_cpu(const at::Tensor& logits, const at::Tensor& label_tensor) {
  const int64_t tokens = logits.size(0), rows = logits.size(1);
  const int64_t* labels = label_tensor.const_data_ptr<int64_t>();
  const auto type = element_type(logits.scalar_type());
  const char* data = static_cast<const char*>(logits.const_data_ptr());
  const at::Tensor wide = at::zeros({3, tokens}, logits.options().dtype(at::kDouble));
  auto statistics = wide.accessor<double, 2>();
  parallel_for(0, tokens, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const char* row = data + i * rows * logits.element_size();
      const auto here = kernels::vector_kernels().softmax_statistics(row, type, rows);
      statistics[0][i] = here.maximum;
      statistics[1][i] = here.sum;
      if (labels[i] >= 0 && labels[i] < rows) statistics[2][i] = logit(row, type, labels[i]);
    }
  });
  return wide.to(compute_type(logits.scalar_type()));
}

// Allocates what statistics_cpu() allocates.
at::Tensor statistics_meta(const at::Tensor& logits, const at::Tensor&) {
  const at::Tensor wide = at::zeros({3, logits.size(0)}, logits.options().dtype(at::kDouble));
  return wide.to(compute_type(logits.scalar_type()));
}

// elsewhere: [tokens], whether a label is not among this shard's rows. index: [tokens, 1], the
// label's row; 0 if elsewhere.
struct LabelsHere {
  at::Tensor elsewhere, index;
};

LabelsHere find_labels(const at::Tensor& labels, int64_t rows) {
  const at::Tensor elsewhere = labels.lt(0).bitwise_or_(labels.ge(rows));
  return {elsewhere, labels.masked_fill(elsewhere, 0).unsqueeze(1)};
}

at::Tensor statistics_any(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor wide = logits.to(compute_type(logits.scalar_type()));
  const at::Tensor largest = wide.amax(1);
  const at::Tensor sum = (wide - largest.unsqueeze(1)).exp_().sum(1);
  const auto [elsewhere, index] = find_labels(labels, logits.size(1));
  const at::Tensor target = wide.gather(1, index).squeeze(1).masked_fill_(elsewhere, 0);
  return at::stack({largest, sum, target});
}

void to_gradient_cpu(const at::Tensor& logits, const at::Tensor& label_tensor,
                     const at::Tensor& ignored_tensor, const at::Tensor& statistics,
                     double soft_cap) {
  const at::Tensor wide = statistics.to(at::kDouble);
  const auto found = wide.accessor<double, 2>();
  const int64_t* labels = label_tensor.const_data_ptr<int64_t>();
  const bool* ignored = ignored_tensor.const_data_ptr<bool>();
  const int64_t row_bytes = logits.size(1) * logits.element_size();
  char* data = static_cast<char*>(logits.mutable_data_ptr());
  parallel_for(0, logits.size(0), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      char* row = data + i * row_bytes;
      if (ignored[i]) {
        std::memset(row, 0, row_bytes);
        continue;
      }
      kernels::vector_kernels().cross_entropy_gradient(row, element_type(logits.scalar_type()),
                                                       logits.size(1), {found[0][i], found[1][i]},
                                                       labels[i], soft_cap);
    }
  });
}

void to_gradient_any(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& ignored,
                     const at::Tensor& statistics, double soft_cap) {
  at::Tensor gradient = (logits.to(statistics.scalar_type()) - statistics[0].unsqueeze(1)).exp_();
  gradient.div_(statistics[1].unsqueeze(1));
  const auto [elsewhere, index] = find_labels(labels, logits.size(1));
  gradient.scatter_add_(1, index, elsewhere.to(gradient.scalar_type()).sub_(1).unsqueeze(1));
  if (soft_cap != 0) gradient.mul_(slope_of_cap(logits, soft_cap));
  logits.copy_(gradient.masked_fill_(ignored.unsqueeze(1), 0));
}

// Allocates what to_gradient_cpu() allocates.
void to_gradient_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                      const at::Tensor& statistics, double) {
  const at::Tensor wide = statistics.to(at::kDouble);
}

// Operators on all devices, so that plans know of them (plan/operator_work.h).
TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("softmax_statistics(Tensor logits, Tensor labels) -> Tensor");
  m.def(
      "cross_entropy_gradient_(Tensor(a!) logits, Tensor labels, Tensor ignored, Tensor "
      "statistics, float soft_cap) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("softmax_statistics", statistics_cpu);
  m.impl("cross_entropy_gradient_", to_gradient_cpu);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("softmax_statistics", statistics_meta);
  m.impl("cross_entropy_gradient_", to_gradient_meta);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("softmax_statistics", statistics_any);
  m.impl("cross_entropy_gradient_", to_gradient_any);
}

}  // namespace

void cap_logits(const at::Tensor& logits, double soft_cap) {
  if (soft_cap == 0 || logits.is_meta()) return;
  logits.is_cpu() ? cap_cpu(logits, soft_cap)
                  : static_cast<void>(logits.div_(soft_cap).tanh_().mul_(soft_cap));
}

at::Tensor softmax_statistics(const at::Tensor& logits, const at::Tensor& labels) {
  static const auto op = find_operator<decltype(statistics_any)>("colossal::softmax_statistics");
  return op.call(logits, labels);
}

at::Tensor losses_of(const at::Tensor& statistics) {
  return statistics[0] + statistics[1].log() - statistics[2];
}

void cross_entropy_gradient(const at::Tensor& logits, const at::Tensor& labels,
                            const at::Tensor& ignored, const at::Tensor& statistics,
                            double soft_cap) {
  static const auto op =
      find_operator<decltype(to_gradient_any)>("colossal::cross_entropy_gradient_");
  op.call(logits, labels, ignored, statistics, soft_cap);
}

at::Tensor cross_entropy_of_rows(const at::Tensor& logits, const at::Tensor& labels,
                                 double soft_cap, bool gradient) {
  if (logits.is_cpu()) return losses_cpu(logits, labels, soft_cap, gradient);
  if (logits.is_meta()) return losses_meta(labels);
  const at::Tensor ignored = labels.eq(kIgnoredLabel);
  const at::Tensor statistics = softmax_statistics(logits, labels);
  if (gradient) cross_entropy_gradient(logits, labels, ignored, statistics, soft_cap);
  return losses_of(statistics).masked_fill_(ignored, 0).sum(at::kDouble);
}

}  // namespace colossal::ops
