// Low-rank adapters of stacked experts (E. Hu et al. 2021, "LoRA"), one per expert e: y_e = x_e
// W_e^T + scale * x_e A_e^T B_e^T. Stacks with the same input share A. A and B are laid out as in
// peft: A is [experts * rank, in], with row e * rank + r for row r of A_e; B is [out, rank *
// experts], with column r * experts + e for column r of B_e.
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
  // down: A of the experts on this rank; ups: B of each stack, in the order of their concatenated
  // outputs.
  ExpertAdapter(ParameterHandle down, std::vector<ParameterHandle> ups, int64_t rank, double scale)
      : down_(std::move(down)), ups_(std::move(ups)), rank_(rank), scale_(scale) {}

  explicit operator bool() const { return static_cast<bool>(down_); }

  // Returns y plus the adapters' terms; only y if there is no adapter or context.adapted is false.
  // rows: the input of the stacks, [rows, in on this rank], sorted by expert. y: the output of the
  // stacks, [rows, sum of outputs on this rank]. counts: number of rows of each expert that is on
  // this rank.
  at::Tensor add(const at::Tensor& y, const at::Tensor& rows, const std::vector<int64_t>& counts,
                 const StepContext& context, LayerScope& scope) const;

 private:
  ParameterHandle down_;  // empty handle: no adapter
  std::vector<ParameterHandle> ups_;
  int64_t rank_ = 0;
  double scale_ = 1;
};

}  // namespace colossal::nn
