// Who is told of what products multiply: calibration, which must know the inputs of each weight.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Rows [n, in] that these weights multiply; expert: of stacks, which matrix of each.
using TellProductInputs =
    std::function<void(const std::vector<ParameterHandle>& weights, std::optional<int64_t> expert,
                       const at::Tensor& rows)>;

// While it lives, `tell` is called for each product of this thread, before it is made. Not twice at
// once.
class ProductInputs {
 public:
  explicit ProductInputs(TellProductInputs tell);
  ProductInputs(const ProductInputs&) = delete;
  ProductInputs& operator=(const ProductInputs&) = delete;
  ~ProductInputs();

 private:
  TellProductInputs tell_;
};

// Called by layers; costs nothing where nobody listens. x: [.., in]
void tell_product_inputs(const std::vector<ParameterHandle>& weights, const at::Tensor& x);
// rows: [n, in], those of the first expert first; counts: how many each has.
void tell_expert_inputs(const std::vector<ParameterHandle>& stacks,
                        const std::vector<int64_t>& counts, const at::Tensor& rows);

}  // namespace colossal::nn
