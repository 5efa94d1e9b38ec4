// Tensor parallelism in two dimensions, and in two and a half.
//
// 2d (Q. Xu and Y. You, "An Efficient 2D Method for Training Super-Large Deep Learning Models",
// 2021): ranks are a square of q rows and q columns. Of an activation between products rank (i, j)
// holds sequences of row i and features of column j; of a weight the inputs of row i and the
// outputs of column j. A product Y = X A runs as SUMMA (R. van de Geijn and J. Watts, 1997): for
// each k the ranks of a row get X_ik, those of a column A_kj, and add X_ik A_kj to their Y_ij,
// while the next two are under way. Backward dX_il is the sum over row i of dY_ij A_lj^T, dA_lj
// that over column j of X_il^T dY_ij: two panels come, two partial sums go.
//
// 2.5d (B. Wang et al., "Tesseract", 2021): `depth` such squares divide the sequences and hold the
// same blocks of weights, whose gradients are summed over depth.
#pragma once

#include "colossal/parallel/tensor_grid.h"

namespace colossal::parallel {

class Tensor2dBuilder : public TensorGridBuilder {
 public:
  Tensor2dBuilder(const ParallelContext& context, Sharding sharding,
                  nn::MakeAttention make_attention, int64_t table_rows);

 private:
  std::unique_ptr<nn::Linear> make_product(GridProduct product) override;

  const comm::Group& row_;     // the ranks of this row, column by column
  const comm::Group& column_;  // the ranks of this column, row by row
};

}  // namespace colossal::parallel
