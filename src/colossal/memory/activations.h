// Decides which activations the forward pass keeps for the backward pass, and which are recomputed.
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

// Which activations are recomputed. The results, including dropout, are bitwise equal to those
// without recomputation.
struct Recompute {
  // Recompute the results of norms and activation functions from their inputs.
  bool selective = false;
  // Recompute the first full_blocks blocks of each pipeline stage from their inputs (T. Chen et al.
  // 2016).
  int64_t full_blocks = 0;

  static constexpr int64_t kAllBlocks = int64_t{1} << 40;
  bool operator==(const Recompute&) const = default;
};

// Decides how the tensors that autograd saves on a rank are kept. Weights are neither copied nor
// offloaded: weights that `chunks` releases between uses are fetched again.
class Activations final : public nn::BlockRunner,
                          private SavedTensorPolicy,
                          private ops::RecomputableResultListener {
 public:
  // `chunks` must outlive this. This must outlive the autograd graphs made within its scopes.
  // offload: the tiers of kept activations.
  Activations(ChunkEngine& chunks, const Recompute& recompute, const TierShares& offload);

  // A scope around a forward pass of a stage. first_block: index of the stage's first block.
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

  // Runs a block. Called by the model through its context.
  at::Tensor run(int64_t index, nn::Block& block, const at::Tensor& x,
                 const nn::StepContext& context) override;

 private:
  class Replay;
  class WeightReference;
  class ReplayedTensor;
  class CheapTensor;

  // How to recompute a result.
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
  std::shared_ptr<Replay> replay_;  // of the block that runs or is recomputed
  std::unordered_map<const c10::StorageImpl*, Recipe> recipes_;
};

}  // namespace colossal::memory
