// Products of few rows with weights [out, in], as in generating text: they take the time of reading
// the weights. Each row's bits depend neither on how many rows there are nor on the number of
// threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// While it lives, this thread's products treat any number of rows as few, where they can. So a
// row's bits are the same in every batch; products of many rows take longer (docs/quantization.md).
class BatchInvariantProducts {
 public:
  BatchInvariantProducts();
  BatchInvariantProducts(const BatchInvariantProducts&) = delete;
  BatchInvariantProducts& operator=(const BatchInvariantProducts&) = delete;
  ~BatchInvariantProducts();

 private:
  bool outer_;  // whether one lived already
};

// Whether x [rows, in] has few rows, and they and the weights, [out, in] each, lie on the CPU with
// dense rows (of a weight, or dense columns), in one type that is computed in.
bool are_few_rows(const at::Tensor& x, const std::vector<at::Tensor>& weights);

// y [rows, sum of out], dense along the last dim <- x w^T + bias for each weight, side by side.
// biases: as many as weights, or none. Without gradients. InternalError: not are_few_rows().
// An operator of LibTorch's, so that recordings see it.
void few_rows_product(const at::Tensor& y, const at::Tensor& x,
                      const std::vector<at::Tensor>& weights,
                      const std::vector<at::Tensor>& biases);

}  // namespace colossal::ops
