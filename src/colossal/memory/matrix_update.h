// MatrixUpdates: the updates of the parameters whose optimizer needs whole matrices
// (optim::MatrixOptimizer). The matrices may be divided among ranks in any way.
//
// Each matrix has an owner, one of the ranks with its pipeline stage. The owner is
// among the ranks that update most of the matrix; within that, work is balanced. An update sends
// the parts of each matrix to its owner, which computes the direction of the update and sends each
// rank the elements that it updates. The stack of an expert layer is one matrix for each expert.
//
// Law (docs/laws.md): matrices are exchanged in rounds of up to 4 Mi elements for each rank. A
// round is two all-to-alls over the ranks of the stage, in the type of the masters. Each rank sends
// owners the elements (Chunk::part) that they lack; owners return to each rank the elements that it
// updates (Chunk::held).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/memory/block_index.h"
#include "colossal/memory/chunk.h"
#include "colossal/memory/tiered_update.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

class MatrixExchange;

class MatrixUpdates {
 public:
  // The scalars of a parameter in this update; nullopt: it is not updated.
  using ScalarsOf = std::function<std::optional<optim::UpdateScalars>(const nn::Parameter&)>;

  // chunks: this rank's chunks with a MatrixOptimizer, in the same order on all ranks with this
  // rank's stages; they and `context` must outlive this. master: dtype of the masters. Collective
  // over the ranks with this rank's stages.
  MatrixUpdates(std::vector<Chunk*> chunks, const ParallelContext& context, at::ScalarType master);

  // The whole states of a matrix, on its owner.
  struct OwnedStates {
    int64_t matrix;                 // index of the matrix in the parameter
    std::vector<at::Tensor> whole;  // in the order of Optimizer::whole_states()
  };
  // Returns the states that this rank stores of a parameter.
  std::vector<OwnedStates> whole_states(const nn::Parameter& parameter) const;
  int64_t whole_state_bytes() const;

  // Calls prepare() and transform(), and replaces the gradients of the chunks by the directions of
  // the update. Throws IoError. Collective over the ranks with this rank's stages.
  void transform(const ScalarsOf& scalars_of);

 private:
  // What a rank has of a parameter.
  struct RankPart {
    // Parts with the same elements of a tensor, or of tensors of one shape, share an index.
    std::shared_ptr<const BlockIndex> index;
    int holding;  // number of the set of elements: equal for ranks that hold the same ones
    // Elements of the rank's flattened tensor: those that it counts, and those that it updates.
    Range counted, updated;
  };
  struct Divided {
    Chunk* chunk;
    size_t slot;
    std::vector<RankPart> ranks;  // by rank of the stage's group
  };
  struct Matrix {
    size_t parameter;  // index in parameters_
    int64_t index;     // of the matrix in the parameter
    int64_t rows, columns;
    int owner;
    int round;
    std::vector<at::Tensor> whole;  // states; empty on other ranks than the owner
  };
  const nn::Parameter& parameter_of(const Matrix& matrix) const;
  void gather_parts();
  void assume_parts();
  void assign_owners();
  void make_states();
  // Returns the elements that `rank` sends to the owner of a matrix, as ranges of its tensor.
  std::vector<Range> sent_to_owner(const Matrix& matrix, int rank) const;
  // Returns the elements of a matrix that `rank` updates, as a range of its tensor.
  Range updated_by(const Matrix& matrix, int rank) const;
  at::Tensor gradients(const Divided& parameter, Range elements) const;
  // Overwrites gradients, from element `begin` of the rank's tensor on.
  void write(const Divided& parameter, int64_t begin, const at::Tensor& values) const;
  // On the owner: puts a matrix together from the parts of all ranks.
  at::Tensor gathered(const Matrix& matrix, MatrixExchange& to_owners) const;
  // On the owner: writes this rank's part of the direction, and sends those of others.
  void return_direction(const Matrix& matrix, const at::Tensor& direction,
                        MatrixExchange& from_owners) const;
  void run_round(int round, const ScalarsOf& scalars_of);

  std::vector<Chunk*> chunks_;
  const ParallelContext& context_;
  const comm::Group& group_;  // the ranks with this rank's stages
  at::ScalarType type_;
  std::vector<Divided> parameters_;
  std::vector<Matrix> matrices_;
  int rounds_ = 0;
};

}  // namespace colossal::memory
