// Tensor parallelism in three dimensions (Z. Bian et al., "Maximizing Parallelism in Distributed
// Training for Huge Neural Networks", 2021).
//
// Ranks are a cube (i, j, l) of q x q x q. Rank (i, j, l) makes X_ij A_jl, and Y_il is the sum of
// those over j. What takes part in it rests in parts: of X_ij rank l has some sequences, of A_jl
// rank i some rows, and of Y_il rank j keeps some sequences. So between products features are cut
// over j and sequences over i and l; after the first of a pair features over l and sequences over i
// and j; the second swaps j and l back. Sequences of X come to all ranks of l one rank after the
// other, and those of Y go to the ranks of j, while the next product is made.
#pragma once

#include "colossal/parallel/tensor_grid.h"

namespace colossal::parallel {

class Tensor3dBuilder : public TensorGridBuilder {
 public:
  Tensor3dBuilder(const ParallelContext& context, Sharding sharding,
                  nn::MakeAttention make_attention, int64_t table_rows);

 private:
  std::unique_ptr<nn::Linear> make_product(GridProduct product) override;

  const comm::Group& pieces_;  // along i
};

}  // namespace colossal::parallel
