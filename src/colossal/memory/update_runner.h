// UpdateRunner: updates a rank's chunks by the optimizers of their parameters, and keeps what
// optimizers store besides the states of single elements: numbers of updates, and whole states.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/memory/matrix_update.h"
#include "colossal/memory/tensor_update.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/parameter_groups.h"

namespace colossal::memory {

class UpdateRunner {
 public:
  // parameters: of the whole model, the same list on all ranks. trained: this rank's chunks that
  // are not frozen, in the order in which the model uses them. optimizers: null if nothing is
  // trained. master: dtype of the masters. parameters, chunks, context and optimizers must outlive
  // this.
  UpdateRunner(const nn::ParameterList& parameters, std::vector<Chunk*> trained,
               const ParallelContext& context, const optim::ParameterGroups* optimizers,
               at::ScalarType master);

  struct Update {
    double learning_rate = 0;
    double gradient_scale = 1;  // factor by which gradients are multiplied before the update
  };
  // Updates the parameters that had a gradient on any rank (ChunkEngine::update()). Collective.
  void update(const Update& update, const std::vector<bool>& used_anywhere);

  // The numbers of updates so far (ChunkEngine::update_counts()).
  std::vector<int64_t> counts() const;
  void set_counts(const std::vector<int64_t>& counts);

  // The updates with whole states; null if no parameter has such an optimizer.
  const TensorUpdates* of_tensors() const { return tensor_updates_.get(); }
  const MatrixUpdates* of_matrices() const { return matrix_updates_.get(); }
  int64_t whole_state_bytes() const;

 private:
  // Updates all chunks by their optimizers' update().
  void run(const TensorUpdates::ScalarsOf& scalars_of);

  const nn::ParameterList& parameters_;
  std::vector<Chunk*> trained_;
  const ParallelContext& context_;
  const optim::ParameterGroups* optimizers_;
  std::unordered_map<const nn::Parameter*, int64_t> counts_;
  std::unique_ptr<TensorUpdates> tensor_updates_;
  std::unique_ptr<MatrixUpdates> matrix_updates_;
};

}  // namespace colossal::memory
