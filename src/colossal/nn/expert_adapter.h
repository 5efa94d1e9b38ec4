// Low-rank adapters of the stacked weights of experts (E. Hu et al. 2021, "LoRA"). Each expert e,
// with weight W_e and input rows x_e, has its own matrices A_e [rank, in] and B_e [out, rank]:
//   y_e = x_e W_e^T + scale * x_e A_e^T B_e^T
// Here, `rank` is the rank of the matrices. Stacks with the same input (gate and up) share A. All
// A_e are one parameter A and all B_e one parameter B, laid out as in peft:
//   A [experts * rank, in]:   row e * rank + i is row i of A_e
//   B [out, rank * experts]:  column i * experts + e is column i of B_e
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
  ExpertAdapter() = default;  // no adapter
  // down: A of the experts on this rank. ups: for each stack, B of these experts, in the order in
  // which the outputs of the stacks are concatenated.
  ExpertAdapter(ParameterHandle down, std::vector<ParameterHandle> ups, int64_t rank, double scale)
      : down_(std::move(down)), ups_(std::move(ups)), rank_(rank), scale_(scale) {}

  explicit operator bool() const { return static_cast<bool>(down_); }  // whether there is one

  // Returns y plus the adapter's terms; y itself if there is no adapter or if context.adapted is
  // false. If several ranks divide `in` among them, y and the result are this rank's terms of a sum
  // over these ranks, which the caller computes.
  //   y       outputs of the stacks, concatenated: [rows, sum of out on this rank]
  //   rows    input of the stacks, sorted by expert: [rows, in on this rank]
  //   counts  number of rows of each expert on this rank
  //   scope   A and B stay on the device until it ends
  at::Tensor add(const at::Tensor& y, const at::Tensor& rows, const std::vector<int64_t>& counts,
                 const StepContext& context, LayerScope& scope) const;

 private:
  ParameterHandle down_;  // empty handle if there is no adapter
  std::vector<ParameterHandle> ups_;
  int64_t rank_ = 0;
  double scale_ = 1;
};

}  // namespace colossal::nn
