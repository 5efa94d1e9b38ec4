// Reports the input of each linear layer's weights to a listener. For the calibration of quantized
// weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Called with rows [n, in] that are about to be multiplied by `weights`, in any layer. expert: for
// stacked weights, the index of the matrix among this rank's experts, and rows are those of this
// expert; nullopt for other weights.
using ProductInputCallback =
    std::function<void(const std::vector<ParameterHandle>& weights, std::optional<int64_t> expert,
                       const at::Tensor& rows)>;

// While a ProductInputListener lives, `tell` is called before each product of the constructing
// thread; for stacked weights, once per expert with rows. A thread may have only one at a time:
// constructing a second throws InternalError.
class ProductInputListener {
 public:
  explicit ProductInputListener(ProductInputCallback tell);
  ProductInputListener(const ProductInputListener&) = delete;
  ProductInputListener& operator=(const ProductInputListener&) = delete;
  ~ProductInputListener();

 private:
  ProductInputCallback tell_;
};

// Layers call these functions before a product; they do nothing if no ProductInputListener lives.
// x: [.., in]
void tell_product_inputs(const std::vector<ParameterHandle>& weights, const at::Tensor& x);
// rows: [n, in], sorted by expert; counts: number of rows of each expert on this rank.
void tell_expert_inputs(const std::vector<ParameterHandle>& stacks,
                        const std::vector<int64_t>& counts, const at::Tensor& rows);

}  // namespace colossal::nn
