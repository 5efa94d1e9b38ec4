// Tensor parallelism in two dimensions (2d), and its extension in depth (2.5d).
//
// 2d (Q. Xu and Y. You, "An Efficient 2D Method for Training Super-Large Deep Learning Models",
// 2021): ranks form a square of q rows and q columns. Sequences and a weight's inputs are divided
// among rows; features of activations and a weight's outputs are divided among columns. Rank (i, j)
// holds block X_ij of each activation and block A_ij of each weight. A product Y = X A runs as
// SUMMA (R. van de Geijn and J. Watts, 1997): for each k, the ranks of row i receive X_ik, the
// ranks of column j receive A_kj, and rank (i, j) adds X_ik A_kj to Y_ij while the panels of the
// next k travel. Backward: dX_il is the sum over j (row i's ranks) of dY_ij A_lj^T, and dA_lj is
// the sum over i (column j's ranks) of X_il^T dY_ij. For each l, a rank receives two panels and
// sends two partial sums.
//
// 2.5d (B. Wang et al., "Tesseract", 2021): there are tp_depth such squares. They divide the
// sequences among them and hold the same weights, whose gradients are summed over the squares.
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
