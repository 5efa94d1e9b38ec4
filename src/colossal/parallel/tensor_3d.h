// Tensor parallelism in three dimensions (Z. Bian et al., "Maximizing Parallelism in Distributed
// Training for Huge Neural Networks", 2021).
//
// Ranks form a cube of q x q x q. Rank (i, j, l) computes X_ij A_jl, and Y_il is the sum of these
// products over j. Each of these blocks is stored in q parts on the q ranks that share it: the
// ranks along l each hold some sequences of X_ij, those along i some stored rows of A_jl, and those
// along j some sequences of Y_il. So between pairs of layers (sharding.h), features are divided
// along j and sequences along i and l; within a pair, features are divided along l and sequences
// along i and j. In the second layer of a pair, j and l swap roles, so its result is divided as
// before the pair. A product gathers A_jl along i, broadcasts the parts of X_ij along l one after
// the other, and sums the parts of Y_il along j; both X and Y travel while a product is computed.
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
