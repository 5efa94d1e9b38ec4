// TensorUpdates: the updates of the parameters whose optimizer needs sums over whole tensors
// (optim::TensorOptimizer). The tensors may be divided among ranks in any way.
//
// Law (docs/laws.md): each pass of the optimizers is one all-reduce over all ranks, of 8 bytes for
// each of the sums that the pass makes (TensorOptimizer::num_sums()) for all tensors of the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "colossal/memory/block_index.h"
#include "colossal/memory/chunk.h"
#include "colossal/memory/tiered_update.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

class TensorUpdates {
 public:
  // The scalars of a parameter in this update; nullopt: it is not updated.
  using ScalarsOf = std::function<std::optional<optim::UpdateScalars>(const nn::Parameter&)>;
  // Returns the optimizer of a parameter; null if it is not trained.
  using OptimizerOf = std::function<const optim::Optimizer*(const nn::Parameter&)>;

  // parameters: of the whole model, the same list on all ranks. chunks: this rank's chunks with a
  // TensorOptimizer; they and `context` must outlive this. master: dtype of the masters.
  TensorUpdates(const nn::ParameterList& parameters, const OptimizerOf& optimizer_of,
                std::vector<Chunk*> chunks, const ParallelContext& context, at::ScalarType master);

  // Runs the passes of the optimizers (TensorOptimizer::pass()). Throws IoError. Collective over
  // all ranks.
  void sum(const ScalarsOf& scalars_of);
  // Updates one span of one of the chunks by TensorOptimizer::update(). Throws IoError.
  void update(Chunk& chunk, TieredUpdate& span, const TieredUpdate::ScalarsOf& scalars_of) const;

  // Returns the whole state tensors of a parameter, in the order of Optimizer::whole_states(); null
  // if there are none, or none here.
  const std::vector<at::Tensor>* whole_states(const nn::Parameter& parameter) const;
  int64_t whole_state_bytes() const;

 private:
  struct Tensor {
    const nn::Parameter* parameter;  // the first one, if the tensor consists of several row blocks
    const optim::TensorOptimizer* optimizer;
    optim::TensorState state;
    bool here = false;  // whether this rank has any of its elements
  };
  // Visits the blocks of a piece of a slot. counted: whether this rank counts their elements in
  // sums.
  using VisitBlock = std::function<void(const optim::Piece& block, bool counted)>;
  void for_each_block(const Chunk& chunk, size_t slot, const optim::Piece& piece, int64_t begin,
                      const VisitBlock& visit) const;
  void run_pass(int pass, const ScalarsOf& scalars_of);

  const ParallelContext& context_;
  std::vector<Chunk*> chunks_;
  std::vector<Tensor> tensors_;  // in the order of `parameters`
  std::unordered_map<const nn::Parameter*, size_t> tensor_of_;
  std::unordered_map<const Chunk*, std::vector<BlockIndex>> indices_;  // by slot
};

}  // namespace colossal::memory
