#include "colossal/ops/product/gptq.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::ops {
namespace {

// Returns the upper Cholesky factor of the inverse of the damped Hessian (step 3 of the paper). Row
// i says how later inputs change for an error of input i, when all inputs before i are fixed.
at::Tensor inverse_factor(const at::Tensor& hessian, double damping) {
  at::Tensor damped = hessian.clone();
  damped.diagonal().add_(damping * damped.diagonal().mean());
  return at::linalg_cholesky(at::cholesky_inverse(at::linalg_cholesky(damped)), /*upper=*/true);
}

// Chooses the scales of groups, and rounds the weights of one input of all outputs.
class InputRounder {
 public:
  InputRounder(const Quantization& how, int64_t outputs, int64_t groups)
      : how_(how), groups_(static_cast<size_t>(groups)), outputs_(outputs) {}

  bool has(int64_t group) const { return groups_[static_cast<size_t>(group)].scale.defined(); }

  // Chooses the scales of a group. numbers: its weights, [outputs, inputs of the group].
  void choose(int64_t group, const at::Tensor& numbers) {
    Quantization whole = how_;
    whole.group = 0;
    set(group, choose_scales(numbers, whole));
  }

  // Returns the nearest values that the group can represent. numbers: the weights of one input of
  // the group, [outputs].
  at::Tensor round(const at::Tensor& numbers, int64_t group) const {
    const Group& of = groups_[static_cast<size_t>(group)];
    const bool is_int8 = how_.type == Quantization::Type::int8;
    const at::Tensor codes =
        ((numbers / of.divisor).round() + of.zero).clamp(is_int8 ? -127 : 0, is_int8 ? 127 : 15);
    return (codes - of.zero) * of.scale;
  }

  GroupScales scales() const {
    GroupScales all;
    std::vector<at::Tensor> scales, zeros;
    for (const Group& group : groups_) {
      scales.push_back(group.chosen.scales);
      if (group.chosen.zeros.defined()) zeros.push_back(group.chosen.zeros);
    }
    all.scales = at::cat(scales, 1);
    if (!zeros.empty()) all.zeros = at::cat(zeros, 1);
    return all;
  }

 private:
  struct Group {
    GroupScales chosen;               // [outputs, 1]
    at::Tensor scale, divisor, zero;  // [outputs] fp64
  };

  void set(int64_t group, GroupScales chosen) {
    constexpr double kMiddle = 8;
    Group& of = groups_[static_cast<size_t>(group)];
    of.scale = chosen.scales.to(at::kDouble).flatten();
    of.divisor = of.scale.where(of.scale != 0, at::ones_like(of.scale));
    of.zero = chosen.zeros.defined()
                  ? chosen.zeros.to(at::kDouble).flatten()
                  : at::full({outputs_}, how_.type == Quantization::Type::int4 ? kMiddle : 0.0,
                             at::kDouble);
    of.chosen = std::move(chosen);
  }

  Quantization how_;
  std::vector<Group> groups_;
  int64_t outputs_;
};

class Gptq {
 public:
  Gptq(const at::Tensor& weight, const at::Tensor& hessian, const Quantization& how,
       const GptqOptions& options)
      : options_(options),
        inputs_(weight.size(1)),
        group_(inputs_of_group(inputs_, how)),
        rounder_(how, weight.size(0), groups_of_output(inputs_, how)),
        order_(order_of(hessian)),
        factor_(inverse_factor(hessian.index_select(0, order_).index_select(1, order_),
                               options.damping)),
        columns_(weight.to(at::kDouble).t().index_select(0, order_)) {
    if (!options.order_by_activation) return;
    for (int64_t group = 0; group * group_ < inputs_; ++group) {
      const int64_t begin = group * group_;
      rounder_.choose(group, weight.narrow(1, begin, std::min(group_, inputs_ - begin)));
    }
  }

  QuantizedMatrix run(const Quantization& how) {
    const at::Tensor rounded = at::empty_like(columns_);
    for (int64_t begin = 0; begin < inputs_; begin += options_.block) {
      const int64_t end = std::min(inputs_, begin + options_.block);
      const at::Tensor errors = at::empty({end - begin, columns_.size(1)}, columns_.options());
      for (int64_t input = begin; input < end; ++input) {
        rounded[input].copy_(round(input, end, errors[input - begin]));
      }
      // Changes the inputs after the block for all errors of the block.
      columns_.narrow(0, end, inputs_ - end)
          .sub_(factor_.narrow(0, begin, end - begin).narrow(1, end, inputs_ - end).t().mm(errors));
    }
    const at::Tensor numbers = at::empty_like(rounded).index_copy_(0, order_, rounded);
    return quantize(numbers.t(), how, rounder_.scales());
  }

 private:
  at::Tensor order_of(const at::Tensor& hessian) const {
    if (!options_.order_by_activation) return at::arange(inputs_, at::kLong);
    return hessian.diagonal().argsort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
  }

  // Rounds the input at place `input` of the order, and changes the later inputs of its block.
  // Returns the rounded weights, and writes the scaled rounding error to `error`, both [outputs].
  at::Tensor round(int64_t input, int64_t block_end, const at::Tensor& error) {
    const int64_t group = order_[input].item<int64_t>() / group_;
    if (!rounder_.has(group)) {  // only if inputs are rounded in ascending order: a group begins
      rounder_.choose(group, columns_.narrow(0, input, std::min(group_, inputs_ - input)).t());
    }
    const at::Tensor number = columns_[input];
    const at::Tensor nearest = rounder_.round(number, group);
    error.copy_((number - nearest) / factor_[input][input]);
    columns_.narrow(0, input, block_end - input)
        .addr_(factor_[input].narrow(0, input, block_end - input), error, 1, -1);
    return nearest;
  }

  GptqOptions options_;
  int64_t inputs_, group_;  // group_: inputs that share a scale
  InputRounder rounder_;
  at::Tensor order_;   // [inputs]: inputs in the order in which they are rounded
  at::Tensor factor_;  // [inputs, inputs], inverse_factor() in this order
  // [inputs, outputs] in this order: the weights, changed to make up for errors of rounded inputs.
  at::Tensor columns_;
};

}  // namespace

QuantizedMatrix gptq(const at::Tensor& weight, const at::Tensor& hessian, const Quantization& how,
                     const GptqOptions& options) {
  COLOSSAL_CHECK(hessian.size(0) == weight.size(1) && hessian.size(1) == weight.size(1),
                 "a Hessian of {} by {} inputs for {}", hessian.size(0), hessian.size(1),
                 weight.size(1));
  COLOSSAL_CHECK(how.type != Quantization::Type::fp8, "GPTQ rounds to integers");
  const at::Tensor wide = hessian.to(at::kDouble);
  if (!at::isfinite(wide).all().item<bool>()) {
    throw Error("the inputs that were seen have numbers that are not finite");
  }
  if (wide.diagonal().eq(0).all().item<bool>()) return quantize(weight, how);
  return Gptq(weight, wide, how, options).run(how);
}

double product_error(const at::Tensor& weight, const at::Tensor& rounded,
                     const at::Tensor& hessian) {
  const at::Tensor difference = rounded.to(at::kDouble) - weight.to(at::kDouble);
  return (difference.mm(hessian.to(at::kDouble)) * difference).sum().item<double>();
}

}  // namespace colossal::ops
