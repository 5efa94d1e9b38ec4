// Products of few rows of activations with weights [out, in] on the CPU, as in token generation.
// Most of the time of such a product goes into reading the weights. The bits of a row of the result
// depend neither on the number of rows nor on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// Linear layers compute a product of few rows with few_rows_product(), and a product of many rows
// in another way, in which a row's bits may depend on the number of rows. While an object of this
// class exists, layers on the thread that created it use few_rows_product() for many rows, too. So
// a row's bits are the same in batches of all sizes. Products of many rows then take longer than
// with LibTorch (docs/quantization.md).
class BatchInvariantProducts {
 public:
  BatchInvariantProducts();
  BatchInvariantProducts(const BatchInvariantProducts&) = delete;
  BatchInvariantProducts& operator=(const BatchInvariantProducts&) = delete;
  ~BatchInvariantProducts();

 private:
  bool outer_;  // whether another object existed on this thread before
};

// Returns whether few_rows_product() should compute the product of x [rows, in] and the weights
// [out, in]. True if all of this holds:
//   - x has few rows: at most 32. But if tile_product() could compute the products (bf16 on a CPU
//     with AMX), the limit is `most_beside_tiles` instead of 32, since tile_product() is faster for
//     more rows. There is no limit while a BatchInvariantProducts exists on this thread;
//   - x and the weights are on the CPU and of one type: bf16, fp32 or fp64;
//   - the rows of x are contiguous, and each weight has contiguous rows or contiguous columns.
// If `weights` is empty, tests x alone.
bool are_few_rows(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  int64_t most_beside_tiles = 8);

// Computes x w^T + bias for each weight w, and writes the results to y, concatenated along the last
// dim. x: [rows, in]. weights: [out, in] each. biases: [out] each, one for each weight; or empty.
// y: [rows, sum of out], with contiguous rows. All have the type of x. Devices, types and strides
// must be those that are_few_rows() accepts; any number of rows is valid. Not differentiable.
// Throws InternalError if x's type is not supported, or if the rows of x or y are not contiguous.
// It is a dispatcher operator, so recordings of operators include it.
void few_rows_product(const at::Tensor& y, const at::Tensor& x,
                      const std::vector<at::Tensor>& weights,
                      const std::vector<at::Tensor>& biases);

}  // namespace colossal::ops
