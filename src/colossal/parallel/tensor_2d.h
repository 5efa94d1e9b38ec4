// Tensor parallelism in two dimensions, and in 2.5.
//
// 2d (Q. Xu and Y. You, "An Efficient 2D Method for Training Super-Large Deep Learning Models",
// 2021): ranks form a square of q rows and q columns. Rank (i, j) holds, of an activation, the
// sequences of row i and the features of column j, and of a weight, the inputs of row i and the
// outputs of column j. A product Y = X A runs as SUMMA (R. van de Geijn and J. Watts, 1997): for
// each k, the ranks of row i receive X_ik, the ranks of column j receive A_kj, and rank (i, j) adds
// X_ik A_kj to Y_ij while the panels of the next k travel. Backward: dX_il is the sum over row i of
// dY_ij A_lj^T, and dA_lj is the sum over column j of X_il^T dY_ij; for each l, two panels are
// received and two partial sums are sent.
//
// 2.5d (B. Wang et al., "Tesseract", 2021): `depth` such squares divide the sequences and hold the
// same blocks of weights, whose gradients are summed over the depth.
#pragma once

#include "colossal/parallel/tensor_grid.h"

namespace colossal::parallel {

class Tensor2dBuilder : public TensorGridBuilder {
 public:
  Tensor2dBuilder(const ParallelContext& context, Sharding sharding,
                  nn::MakeAttention make_attention, int64_t table_rows);

 private:
  std::unique_ptr<nn::Linear> make_product(GridProduct product) override;

  const comm::Group& row_;     // the ranks of this row, by column
  const comm::Group& column_;  // the ranks of this column, by row
};

}  // namespace colossal::parallel
