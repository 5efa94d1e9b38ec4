// Tensor parallelism in three dimensions (Z. Bian et al., "Maximizing Parallelism in Distributed
// Training for Huge Neural Networks", 2021).
//
// Ranks form a cube of q x q x q. Rank (i, j, l) computes X_ij A_jl, and Y_il is the sum of these
// products over j. Each operand is stored in parts: of X_ij, rank l holds some sequences; of A_jl,
// rank i holds some rows; of Y_il, rank j keeps some sequences. So between pairs, features are cut
// over j and sequences over i and l; within a pair, features are cut over l and sequences over i
// and j. The second layer of a pair swaps j and l back. The parts of X are broadcast along l one
// after the other, and the parts of Y are reduced to the ranks of j, both overlapped with the next
// product.
#pragma once

#include "colossal/parallel/tensor_grid.h"

namespace colossal::parallel {

class Tensor3dBuilder : public TensorGridBuilder {
 public:
  Tensor3dBuilder(const ParallelContext& context, Sharding sharding,
                  nn::MakeAttention make_attention, int64_t table_rows);

 private:
  std::unique_ptr<nn::Linear> make_product(GridProduct product) override;

  const comm::Group& pieces_;  // the ranks along i
};

}  // namespace colossal::parallel
