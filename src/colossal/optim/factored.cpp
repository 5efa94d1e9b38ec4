#include "colossal/optim/factored.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>

#include "colossal/optim/elements.h"

namespace colossal::optim {
namespace {

at::Tensor rows_of(const at::Tensor& sums, const MatrixShape& shape) {
  return sums.narrow(0, 0, shape.matrices * shape.rows);
}

at::Tensor columns_of(const at::Tensor& sums, const MatrixShape& shape) {
  return sums.narrow(0, shape.matrices * shape.rows, shape.matrices * shape.columns);
}

}  // namespace

std::vector<WholeState> factored_states(const std::string& rows, const std::string& columns,
                                        const MatrixShape& shape) {
  return {{rows, {shape.matrices * shape.rows}}, {columns, {shape.matrices * shape.columns}}};
}

int64_t num_factored_sums(const MatrixShape& shape) {
  return shape.matrices * (shape.rows + shape.columns);
}

void add_factored_sums(const Piece& piece, const at::Tensor& squares, const at::Tensor& sums) {
  const at::Tensor block = squares.view({piece.rows.numel(), piece.columns.numel()});
  const MatrixShape& shape = piece.tensor->shape;
  rows_of(sums, shape).index_add_(0, piece.rows, block.sum(1, /*keepdim=*/false, at::kDouble));
  columns_of(sums, shape)
      .index_add_(0, piece.columns, block.sum(0, /*keepdim=*/false, at::kDouble));
}

at::Tensor move_factored(const at::Tensor& rows, const at::Tensor& columns, const at::Tensor& sums,
                         const MatrixShape& shape, double beta) {
  const auto type = rows.scalar_type();
  move_average(rows, (rows_of(sums, shape) / shape.columns).to(type), beta);
  move_average(columns, (columns_of(sums, shape) / shape.rows).to(type), beta);
  const at::Tensor of_matrix = rows.to(at::kDouble).view({shape.matrices, shape.rows});
  const at::Tensor of_rows = (of_matrix / of_matrix.mean(1, /*keepdim=*/true)).rsqrt().view(-1);
  return at::cat({of_rows, columns.to(at::kDouble).rsqrt()});
}

at::Tensor inverse_roots(const Piece& piece, const at::Tensor& factors) {
  const MatrixShape& shape = piece.tensor->shape;
  const auto type = piece.master.scalar_type();
  const at::Tensor rows = rows_of(factors, shape).index_select(0, piece.rows).to(type);
  const at::Tensor columns = columns_of(factors, shape).index_select(0, piece.columns).to(type);
  return (rows.unsqueeze(1) * columns.unsqueeze(0)).view(-1);
}

}  // namespace colossal::optim
