// Decides what the forward pass keeps for the backward pass, and what is computed again.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "colossal/memory/activation_store.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/memory/saved_tensors.h"
#include "colossal/nn/blocks.h"
#include "colossal/ops/recomputable_result.h"

namespace colossal::memory {

// Which activations are computed again. Results, dropout included, are bit for bit those of keeping
// them.
struct Recompute {
  // Results of norms and activation functions, from their inputs.
  bool selective = false;
  // The first full_blocks blocks of each pipeline stage are computed again from their inputs (T.
  // Chen et al. 2016).
  int64_t full_blocks = 0;

  static constexpr int64_t kAllBlocks = int64_t{1} << 40;
  bool operator==(const Recompute&) const = default;
};

// Decides how what a rank's model saves is kept. Weights are neither kept nor offloaded: those that
// `chunks` releases between uses are fetched again.
class Activations final : public nn::BlockRunner,
                          private SavedTensorPolicy,
                          private ops::RecomputableResultListener {
 public:
  // `chunks` must outlive this, and this the graphs of forward passes in its scopes. `offload`:
  // where kept activations rest.
  Activations(ChunkEngine& chunks, const Recompute& recompute, const TierShares& offload);

  // A scope around a forward pass of a stage, whose first block is `first_block`.
  class Scope {
   public:
    explicit Scope(Activations& activations, int64_t first_block = 0)
        : saving_(activations), cheap_(activations.recompute_.selective ? &activations : nullptr) {
      activations.store_.begin_forward();
      activations.first_block_ = first_block;
    }

   private:
    SavedTensorScope saving_;
    ops::RecomputableResultScope cheap_;
  };

  // Runs a block. The model calls it through its context.
  at::Tensor run(int64_t index, nn::Block& block, const at::Tensor& x,
                 const nn::StepContext& context) override;

 private:
  class Replay;
  class WeightReference;
  class ReplayedTensor;
  class CheapTensor;

  // How a result is computed again.
  struct Recipe {
    c10::weak_intrusive_ptr<c10::StorageImpl> result;
    std::vector<at::Tensor> inputs;
    ops::ComputeAgain compute;
  };

  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override;
  void made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
            ops::ComputeAgain compute) override;
  std::unique_ptr<SavedTensor> save_cheap(const at::Tensor& tensor);

  ChunkEngine& chunks_;
  Recompute recompute_;
  ActivationStore store_;
  int64_t first_block_ = 0;
  std::shared_ptr<Replay> replay_;  // of the block that is running or running again
  std::unordered_map<const c10::StorageImpl*, Recipe> recipes_;
};

}  // namespace colossal::memory
