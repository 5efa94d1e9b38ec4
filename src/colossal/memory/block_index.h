// BlockIndex: the rows and columns of the elements that a rank holds of a tensor. These elements,
// flattened, are "the rank's flattened tensor" below. Optimizers that sum
// over rows and columns get their pieces as blocks of a matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::memory {

// A part of this rank's flattened tensor that is a block of one matrix.
struct MatrixBlock {
  Range elements;      // of this rank's flattened tensor
  at::Tensor rows;     // int64: optim::Piece::rows
  at::Tensor columns;  // int64: optim::Piece::columns
};

class BlockIndex {
 public:
  // shape: of the whole tensor. held: nn::Placement::held of the rank. device: of the index
  // tensors.
  BlockIndex(const std::vector<int64_t>& shape, const std::vector<std::vector<Range>>& held,
             at::Device device);

  // Divides elements of this rank's flattened tensor into as few blocks as possible, in ascending
  // order.
  std::vector<MatrixBlock> blocks(Range elements) const;

  // Returns the elements of this rank's flattened tensor that are in matrix `matrix` of the whole
  // tensor; empty if the rank has none of it.
  Range elements_of_matrix(int64_t matrix) const;

 private:
  std::vector<int64_t> matrices_;             // index of each matrix on this rank
  int64_t rows_of_matrix_ = 1, columns_ = 1;  // of a matrix on this rank
  // Index of each row of this rank among the rows of all matrices of the whole tensor;
  // column_index_: [matrices here * columns_], the same for columns.
  at::Tensor row_index_, column_index_;
};

}  // namespace colossal::memory
