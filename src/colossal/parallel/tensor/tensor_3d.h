// Tensor parallelism in three dimensions, mode 3d (Z. Bian et al., "Maximizing Parallelism in
// Distributed Training for Huge Neural Networks", 2021).
//
// The ranks of tp form a cube of q x q x q; a rank has the coordinates (i, j, l). For a product Y =
// X A of an activation X [tokens, inputs] with a weight A [inputs, outputs], X is divided into
// blocks X_ij, A into A_jl and Y into Y_il. Rank (i, j, l) computes X_ij A_jl; Y_il is the sum of
// these products over j. The q ranks that need a block divide its storage:
//   X_ij  the ranks along l each hold some of its sequences
//   A_jl  the ranks along i each hold some rows of the block as it is stored: outputs if the weight
//         is stored as [out, in], inputs if it is stored as [in, out]
//   Y_il  the ranks along j each hold some of its sequences
// The product gathers A_jl along i, broadcasts the parts of X_ij along l one after the other, and
// sums the parts of Y_il along j. Parts of X and Y are sent while other parts are multiplied.
//
// Linear layers are in pairs, such as the up and the down layer of an MLP (sharding.h). Between
// pairs, features are divided along j, and sequences along i and then l. Within a pair, features
// are divided along l, and sequences along i and then j. In the second layer of a pair, j and l
// swap roles: its result is divided like the input of the pair.
#pragma once

#include "colossal/parallel/tensor/tensor_grid.h"

namespace colossal::parallel {

// The builder of a model's layers in mode 3d.
class Tensor3dBuilder : public TensorGridBuilder {
 public:
  // shardings: which linear layers are in pairs, and how they are divided. make_attention: makes
  // the attention over this rank's heads and sequences. table_rows: a vocabulary table that has
  // more rows than this on a rank is divided into several parameters, each of at most this many
  // rows; 0: tables are not divided. `context` must outlive the builder and its layers.
  Tensor3dBuilder(const ParallelContext& context, Shardings shardings,
                  nn::MakeAttention make_attention, int64_t table_rows);

 private:
  std::unique_ptr<nn::Linear> make_product(GridProduct product) override;

  const comm::Group& pieces_;  // the ranks along i, which hold the pieces of a weight's block
};

}  // namespace colossal::parallel
