// Decides for each activation that autograd saves: keep it on the device, offload it, or recompute
// it in the backward pass.
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
  // In the blocks that full_blocks does not cover, recompute the results of norms and activation
  // functions from their inputs.
  bool selective = false;
  // Of the first full_blocks blocks of each pipeline stage, keep only the input; in the backward
  // pass, run the block's forward pass again (T. Chen et al. 2016).
  int64_t full_blocks = 0;

  static constexpr int64_t kAllBlocks = int64_t{1} << 40;
  bool operator==(const Recompute&) const = default;
};

// The policy for the tensors that autograd saves on a rank. A saved weight is never copied: if
// `chunks` releases it between uses, it is fetched again for the backward pass. A recomputed block
// runs in the thread of the backward pass.
class Activations final : public nn::BlockRunner,
                          private SavedTensorPolicy,
                          private ops::RecomputableResultListener {
 public:
  // `chunks` must outlive this. This must outlive the autograd graphs made within its scopes.
  // offload: the tiers of the activations that are not recomputed.
  Activations(ChunkEngine& chunks, const Recompute& recompute, const TierShares& offload);

  // A scope around a forward pass of a stage, on the thread that runs it. first_block: index in the
  // model of the stage's first block.
  class Scope {
   public:
    explicit Scope(Activations& activations, int64_t first_block = 0)
        : saving_(activations),
          recomputable_(activations.recompute_.selective ? &activations : nullptr) {
      activations.store_.begin_forward();
      activations.first_block_ = first_block;
    }

   private:
    SavedTensorScope saving_;
    ops::RecomputableResultScope recomputable_;
  };

  // Runs a block's forward pass on x, the block's input. index: number of the block in the model.
  // The model calls this through StepContext.
  at::Tensor run(int64_t index, nn::Block& block, const at::Tensor& x,
                 const nn::StepContext& context) override;

 private:
  class Replay;
  class WeightReference;
  class ReplayedTensor;
  class RecomputableTensor;

  // How to recompute a result: `result` is its storage.
  struct Recipe {
    c10::weak_intrusive_ptr<c10::StorageImpl> result;
    std::vector<at::Tensor> inputs;
    ops::ComputeAgain compute;
  };

  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override;
  void made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
            ops::ComputeAgain compute) override;
  std::unique_ptr<SavedTensor> save_recomputable(const at::Tensor& tensor);

  ChunkEngine& chunks_;
  Recompute recompute_;
  ActivationStore store_;
  int64_t first_block_ = 0;
  std::shared_ptr<Replay> replay_;  // of the block that runs or is recomputed
  std::unordered_map<const c10::StorageImpl*, Recipe> recipes_;
};

}  // namespace colossal::memory
