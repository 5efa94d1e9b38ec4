// Products of few rows with weights [out, in], as in token generation, where reading the weights
// takes most of the time. The bits of a row of the result depend neither on the number of rows nor
// on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// While an object of this class exists, this thread's products use the kernels for few rows for any
// number of rows, where they can. So a row's bits are the same in every batch; products of many
// rows take longer (docs/quantization.md).
class BatchInvariantProducts {
 public:
  BatchInvariantProducts();
  BatchInvariantProducts(const BatchInvariantProducts&) = delete;
  BatchInvariantProducts& operator=(const BatchInvariantProducts&) = delete;
  ~BatchInvariantProducts();

 private:
  bool outer_;  // whether an outer object existed
};

// Returns whether few_rows_product() supports these operands: x [rows, in] has few rows (at most
// 32; any number with BatchInvariantProducts); x and the weights [out, in] are on the CPU, in one
// of bf16, fp32 and fp64; x's rows are dense, and each weight has dense rows or dense columns.
bool are_few_rows(const at::Tensor& x, const std::vector<at::Tensor>& weights);

// y [rows, sum of out] <- x w^T + bias for each weight, concatenated along the last dim, which is
// dense. biases: one for each weight, or empty. Not differentiable. Requires are_few_rows(); throws
// InternalError for an unsupported type or layout of x or y. A dispatcher operator, so that
// recordings include it.
void few_rows_product(const at::Tensor& y, const at::Tensor& x,
                      const std::vector<at::Tensor>& weights,
                      const std::vector<at::Tensor>& biases);

}  // namespace colossal::ops
