// Owns the bytes of a model's parameters, gradients and optimizer state, shards them as the ZeRO
// stage says (Rajbhandari et al. 2020) and reduces gradients while backward goes on.
//
//   stage 0   every rank holds and updates everything; gradients are all-reduced
//   stage 1   a rank holds masters and moments of its part of each chunk, and updates that part:
//             gradients are reduce-scattered, updated weights all-gathered
//
// A step is: begin_step; for each micro-batch begin_micro_batch, forward, backward,
// end_micro_batch; finish_reduction; then update or discard. Gradients leave at the last
// micro-batch, chunk by chunk in one fixed order that is equal on all ranks: reverse order of use.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/layout/partition.h"
#include "colossal/memory/chunk_plan.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

struct ChunkOptions {
  at::ScalarType working = at::kFloat;   // what the model computes with
  at::ScalarType master = at::kFloat;    // what is updated; equal to working: one copy serves both
  at::ScalarType gradient = at::kFloat;  // accumulates and travels in this type
  int64_t chunk_bytes = int64_t{16} << 20;
  // The model reads weights through handles, so that the next forward waits for each chunk as it
  // comes to it. A foreign module does not: update() returns when all weights are here.
  bool handles_used = true;
};

// A run of one parameter's elements that this rank holds, and the tensors for it (one-dimensional,
// equal length, views): what checkpoints write and read.
struct OwnedPiece {
  const nn::Parameter* parameter = nullptr;
  Range elements;       // of the flattened global parameter
  at::Tensor working;   // in the compute type
  at::Tensor master;    // the same tensor where working weights are their own masters
  at::Tensor gradient;  // summed over ranks after finish_reduction; a frozen one has none
  std::vector<at::Tensor> state;
};

class ChunkEngine : private nn::Residency {
 public:
  // Takes over the parameters: gives each its storage. `context` and `optimizer` must outlive this.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const optim::Optimizer& optimizer, const ChunkOptions& options);
  ~ChunkEngine() override;
  ChunkEngine(const ChunkEngine&) = delete;
  ChunkEngine& operator=(const ChunkEngine&) = delete;

  // Masters and working weights from the initialisers; each rank makes its part, then they gather.
  void initialise(uint64_t seed);
  // Writes `values` (flat, any float type) as elements [begin, begin + size) of a parameter, as far
  // as these are here: working weights, and masters where this rank holds them.
  void load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values);

  void begin_step();
  void begin_micro_batch(bool last);
  void end_micro_batch();
  void finish_reduction();  // waits until gradients are summed over the ranks that share them

  // After finish_reduction. Squares of this rank's part of the gradients (each element of the model
  // in one rank's part only), unscaled; non-finite if any of them is.
  double squared_gradient_norm() const;
  // Whether the parameter had a gradient here in this step, in order of parameters().
  std::vector<double> used() const;
  // Name of the first parameter with a non-finite gradient in this rank's part; empty: none.
  std::string first_non_finite_gradient() const;

  struct Update {
    double learning_rate = 0;
    double weight_decay = 0;
    double gradient_scale = 1;
  };
  // Updates what was used on any rank, leaves the rest untouched.
  void update(const Update& update, const std::vector<bool>& used_anywhere);

  // Waits for everything under way: after it, every working weight is whole and current.
  void synchronize();

  const nn::ParameterList& parameters() const { return parameters_; }
  const ChunkOptions& options() const { return options_; }
  const optim::Optimizer& optimizer() const { return optimizer_; }

  // How often each parameter was updated, in order of parameters(): part of the optimizer's state.
  std::vector<int64_t> update_counts() const;
  void set_update_counts(const std::vector<int64_t>& counts);

  // Every run of elements that this rank alone writes to a checkpoint; over all ranks they cover
  // the model once.
  void for_each_written_piece(const std::function<void(const OwnedPiece&)>& visit) const;
  void for_each_written_piece(const nn::Parameter& parameter,
                              const std::function<void(const OwnedPiece&)>& visit) const;
  // Every run whose master and state this rank holds (stage 0: all).
  void for_each_held_piece(const std::function<void(const OwnedPiece&)>& visit) const;

  // Working weight and reduced gradient of a parameter, as views (the gradient of stage 1: only
  // this rank's part is reduced).
  at::Tensor gradient(const nn::Parameter& parameter) const;

  // Sizes for the byte laws and memory figures.
  struct ChunkSize {
    int64_t numel = 0;
    int64_t own_numel = 0;  // this rank's part
    bool trainable = true;
  };
  std::vector<ChunkSize> chunk_sizes() const;

  struct StateBytes {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t optimizer = 0;
  };
  StateBytes state_bytes() const;

 private:
  struct Chunk;
  class GradientHook;

  void before_use(nn::Parameter& parameter) override;
  void allocate(Chunk& chunk);
  void store(Chunk& chunk, int64_t offset, const at::Tensor& values);
  void attach(Chunk& chunk);
  void collect_gradient(Chunk& chunk, size_t slot, const at::Tensor& parameter);
  void launch_ready_chunks();
  void launch(Chunk& chunk);
  void update_run(Chunk& chunk, Range run, int64_t count, const Update& update);
  void visit_pieces(bool held, const std::function<void(const OwnedPiece&)>& visit) const;
  void visit_slot(const Chunk& chunk, size_t slot, bool held,
                  const std::function<void(const OwnedPiece&)>& visit) const;
  OwnedPiece piece_of(const Chunk& chunk, const nn::Parameter& parameter, int64_t offset,
                      const nn::Parameter::Run& run) const;

  nn::ParameterList parameters_;
  const ParallelContext& context_;
  const optim::Optimizer& optimizer_;
  ChunkOptions options_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> launch_order_;  // trainable chunks, last used first
  size_t launched_ = 0;
  bool last_micro_batch_ = false;

  struct Place {
    Chunk* chunk;
    size_t slot;
  };
  std::unordered_map<const nn::Parameter*, Place> places_;
};

}  // namespace colossal::memory
