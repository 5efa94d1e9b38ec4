#include "colossal/ops/product/awq.h"

#include <ATen/ATen.h>

#include <limits>

#include "colossal/ops/product/gptq.h"

namespace colossal::ops {
namespace {

// Returns the squared error of the layers' outputs if each weight is multiplied by the factors,
// quantized, and divided by the factors again.
double error_with(const at::Tensor& factors, const std::vector<at::Tensor>& weights,
                  const at::Tensor& hessian, const Quantization& how) {
  double error = 0;
  for (const at::Tensor& weight : weights) {
    const at::Tensor scaled = weight.to(at::kDouble) * factors;
    const at::Tensor rounded = dequantize(quantize(scaled, how), at::kDouble) / factors;
    error += product_error(weight, rounded, hessian);
  }
  return error;
}

}  // namespace

InputStatistics::InputStatistics(int64_t inputs)
    : hessian(at::zeros({inputs, inputs}, at::kDouble)),
      magnitudes(at::zeros({inputs}, at::kDouble)) {}

void InputStatistics::add(const at::Tensor& rows_seen) {
  // Products are summed in fp32 within a batch, and in fp64 over batches.
  const at::Tensor seen = rows_seen.to(at::kFloat);
  hessian.add_(seen.t().mm(seen));
  magnitudes.add_(seen.abs().sum(0));
  rows += seen.size(0);
}

at::Tensor awq_factors(const std::vector<at::Tensor>& weights, const InputStatistics& inputs,
                       const Quantization& how) {
  constexpr int kSteps = 20;
  constexpr double kLeast = 1e-4;  // minimum factor before normalization, as in the authors' code
  const at::Tensor ones = at::ones_like(inputs.magnitudes);
  if (inputs.rows == 0) return ones;
  const at::Tensor mean = inputs.magnitudes / static_cast<double>(inputs.rows);
  at::Tensor best = ones;
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor raised = mean.pow(static_cast<double>(step) / kSteps).clamp_min(kLeast);
    const at::Tensor factors = raised / (raised.max() * raised.min()).sqrt();
    const double error = error_with(factors, weights, inputs.hessian, how);
    if (error < least) {
      least = error;
      best = factors;
    }
  }
  return best;
}

}  // namespace colossal::ops
