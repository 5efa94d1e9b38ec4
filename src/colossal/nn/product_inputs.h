// Reports the inputs of linear layers, for calibration, which must know the inputs of each weight.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Called with the input rows [n, in] of `weights`. expert: for stacked weights, the index of the
// matrix in each stack; nullopt for other weights.
using TellProductInputs =
    std::function<void(const std::vector<ParameterHandle>& weights, std::optional<int64_t> expert,
                       const at::Tensor& rows)>;

// While a ProductInputs lives, `tell` is called before each product of this thread. Only one may
// live per thread; a second throws InternalError.
class ProductInputs {
 public:
  explicit ProductInputs(TellProductInputs tell);
  ProductInputs(const ProductInputs&) = delete;
  ProductInputs& operator=(const ProductInputs&) = delete;
  ~ProductInputs();

 private:
  TellProductInputs tell_;
};

// Called by layers; no cost without a listener. x: [.., in]
void tell_product_inputs(const std::vector<ParameterHandle>& weights, const at::Tensor& x);
// rows: [n, in], sorted by expert; counts: number of rows of each expert.
void tell_expert_inputs(const std::vector<ParameterHandle>& stacks,
                        const std::vector<int64_t>& counts, const at::Tensor& rows);

}  // namespace colossal::nn
