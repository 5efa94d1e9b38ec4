// Low-rank adapters of stacked experts (E. Hu et al. 2021, "LoRA"), one for each: y_e = x_e W_e^T +
// scale * x_e A_e^T B_e^T. Stacks of one input may share A. They lie as peft has them: A is
// [experts * rank, in], of one expert after the other, and B [out, rank * experts], of one rank
// after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

class ExpertAdapter {
 public:
  ExpertAdapter() = default;  // adapts nothing
  // down: A of the experts here; ups: B of each of the stacks whose results lie side by side.
  ExpertAdapter(ParameterHandle down, std::vector<ParameterHandle> ups, int64_t rank, double scale)
      : down_(std::move(down)), ups_(std::move(ups)), rank_(rank), scale_(scale) {}

  explicit operator bool() const { return static_cast<bool>(down_); }

  // y [rows, sum of out here] of rows [rows, in here], and what the adapters add. counts: rows of
  // each expert here.
  at::Tensor add(const at::Tensor& y, const at::Tensor& rows, const std::vector<int64_t>& counts,
                 const StepContext& context, LayerScope& scope) const;

 private:
  ParameterHandle down_;  // empty: nothing is adapted
  std::vector<ParameterHandle> ups_;
  int64_t rank_ = 0;
  double scale_ = 1;
};

}  // namespace colossal::nn
