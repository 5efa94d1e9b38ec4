// Lets a caller observe the inputs of linear layers during a forward pass. The calibration of
// quantized weights (GPTQ, AWQ) collects statistics of these inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Receives the input of one product.
//   weights  the weights by which the rows are multiplied
//   expert   if the weights are stacks of experts: the index, among this rank's experts, of the
//            expert whose matrices multiply the rows; else nullopt
//   rows     [tokens, in_features]
using ProductInputCallback =
    std::function<void(const std::vector<ParameterHandle>& weights, std::optional<int64_t> expert,
                       const at::Tensor& rows)>;

// Calls a ProductInputCallback before each multiply() (product.h) and before the products of
// experts, while the listener lives and in the thread that constructed it. For stacks of experts
// there is one call per expert that has rows. Sharded layers that compute their product without
// multiply() are not reported; nn/product.h says which.
class ProductInputListener {
 public:
  // Throws InternalError if this thread has a listener already.
  explicit ProductInputListener(ProductInputCallback tell);
  ProductInputListener(const ProductInputListener&) = delete;
  ProductInputListener& operator=(const ProductInputListener&) = delete;
  ~ProductInputListener();

 private:
  ProductInputCallback tell_;
};

// Calls this thread's listener, if there is one. Call it before multiplying x [.., in_features] by
// `weights`.
void report_product_inputs(const std::vector<ParameterHandle>& weights, const at::Tensor& x);
// Like report_product_inputs(), for stacks of experts. rows: [rows, in_features], sorted by expert;
// counts: number of rows of each expert on this rank.
void report_expert_inputs(const std::vector<ParameterHandle>& stacks,
                          const std::vector<int64_t>& counts, const at::Tensor& rows);

}  // namespace colossal::nn
