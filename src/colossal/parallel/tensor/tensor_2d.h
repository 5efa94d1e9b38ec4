// Tensor parallelism in two dimensions (mode 2d), and its extension in depth (mode 2.5d).
//
// 2d (Q. Xu and Y. You, "An Efficient 2D Method for Training Super-Large Deep Learning Models",
// 2021): the ranks of tp form a square of q rows and q columns; rank (i, j) is in row i and column
// j. Row i has the i-th part of the sequences and of each weight's inputs; column j has the j-th
// part of the features and of each weight's outputs. So rank (i, j) holds the block X_ij of each
// activation X [tokens, features] and the block A_ij of each weight A [inputs, outputs].
//
// A product Y = X A is computed by SUMMA (R. van de Geijn and J. Watts, 1997): Y_ij is the sum over
// k of X_ik A_kj. For each k, X_ik is broadcast along row i and A_kj along column j. The broadcast
// for k + 1 runs while the ranks compute the product for k. In the backward pass, with gradients
// dY, dX and dA: dX_ik is the sum over j of dY_ij A_kj^T, and dA_kj is the sum over i of X_ik^T
// dY_ij. For each k, a rank receives the panels A_kj and X_ik, and its terms of dX_ik and of dA_kj
// are summed onto the ranks that hold these blocks.
//
// 2.5d (B. Wang et al., "Tesseract", 2021): there are Strategy::tp_depth such squares. The
// sequences are divided among the squares. All squares hold the same weights; weight gradients are
// summed over the squares.
#pragma once

#include "colossal/parallel/tensor/tensor_grid.h"

namespace colossal::parallel {

// The builder for modes 2d and 2.5d.
class Tensor2dBuilder : public TensorGridBuilder {
 public:
  // context: must outlive the builder and its layers. shardings: the model's sizes and its pairs of
  // linear layers (sharding.h); only layers in pairs are computed as above. make_attention: makes
  // the attention over this rank's heads and sequences. table_rows: maximum number of rows of one
  // parameter of a vocabulary table; 0: no maximum.
  Tensor2dBuilder(const ParallelContext& context, Shardings shardings,
                  nn::MakeAttention make_attention, int64_t table_rows);

 private:
  std::unique_ptr<nn::Linear> make_product(GridProduct product) override;

  const comm::Group& row_;     // the ranks of this rank's row, in the order of columns
  const comm::Group& column_;  // the ranks of this rank's column, in the order of rows
};

}  // namespace colossal::parallel
