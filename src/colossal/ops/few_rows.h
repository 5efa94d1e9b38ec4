// Products of few rows with weights [out, in], as in token generation, where most of the time goes
// into reading the weights. The bits of a row of the result depend neither on the number of rows
// nor on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// While an object of this class exists, this thread's products use the kernels for few rows
// whatever the number of rows, where are_few_rows() allows it. So a row's bits are the same in
// every batch. Products of many rows take longer (docs/quantization.md).
class BatchInvariantProducts {
 public:
  BatchInvariantProducts();
  BatchInvariantProducts(const BatchInvariantProducts&) = delete;
  BatchInvariantProducts& operator=(const BatchInvariantProducts&) = delete;
  ~BatchInvariantProducts();

 private:
  bool outer_;  // whether another object existed on this thread before
};

// Returns whether few_rows_product() should compute this product: x [rows, in] has few rows (at
// most 32; with BatchInvariantProducts any number); x and the weights [out, in] are on the CPU and
// of one type, bf16, fp32 or fp64; x has dense rows, and each weight has dense rows or dense
// columns.
bool are_few_rows(const at::Tensor& x, const std::vector<at::Tensor>& weights);

// y <- x w^T + bias for each weight w, concatenated along the last dim. y: [rows, sum of out], with
// dense rows. biases: one for each weight, or empty. Not differentiable. Requires are_few_rows().
// Throws InternalError if x's type is not supported or if the rows of x or y are not dense. It is a
// dispatcher operator, so that recordings of operators include it.
void few_rows_product(const at::Tensor& y, const at::Tensor& x,
                      const std::vector<at::Tensor>& weights,
                      const std::vector<at::Tensor>& biases);

}  // namespace colossal::ops
