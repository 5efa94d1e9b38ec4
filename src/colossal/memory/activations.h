// Decides what happens to each activation that autograd saves for the backward pass: the activation
// is kept on the device, offloaded, or recomputed (memory.recompute, memory.offload_activations).
// PipelineExecutor runs each forward pass of a training step in an Activations::Scope.
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
  // Whether the results of norms and activation functions are recomputed from their inputs, except
  // in the blocks that full_blocks includes.
  bool selective = false;
  // Number of blocks of each pipeline stage, from its first on, of which only the input is kept.
  // The backward pass runs the forward pass of such a block again (T. Chen et al. 2016).
  int64_t full_blocks = 0;

  static constexpr int64_t kAllBlocks = int64_t{1} << 40;  // full_blocks for all blocks
  bool operator==(const Recompute&) const = default;
};

// The policy for the tensors that autograd saves on a rank. A saved weight is never copied: if
// `chunks` releases the weight between uses, the weight is fetched again for the backward pass. A
// recomputed block runs in the thread of the backward pass. Not thread-safe.
class Activations final : public nn::BlockRunner,
                          private SavedTensorPolicy,
                          private ops::RecomputableResultListener {
 public:
  // chunks: the model's weights; must outlive this object. offload: which fraction of the saved
  // activations is stored in each tier; activations that are recomputed do not count. This object
  // must outlive the autograd graphs that are made within its scopes.
  Activations(ChunkEngine& chunks, const Recompute& recompute, const TierShares& offload);

  // While a Scope exists, `activations` decides about the tensors that this thread's forward pass
  // saves. Construct a Scope around each forward pass of a stage. first_block: index in the model
  // of the stage's first block.
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

  // Runs the forward pass of a block, and returns the state after it. index: index of the block in
  // the model. The model calls run() if StepServices::block_runner is this object.
  nn::BlockState run(int64_t index, nn::Block& block, const nn::BlockState& state,
                     const nn::StepContext& context) override;

 private:
  class Replay;
  class WeightReference;
  class ReplayedTensor;
  class RecomputableTensor;

  // How to recompute a tensor, the result of a norm or an activation function.
  struct Recipe {
    c10::weak_intrusive_ptr<c10::StorageImpl> result;  // the tensor's storage
    std::vector<at::Tensor> inputs;
    ops::RecomputeFunction compute;
  };

  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override;
  // Weights: only `chunks` can bring back those that it releases.
  bool insists_on(const at::Tensor& tensor) const override { return chunks_.is_weight(tensor); }
  // Called by operators whose result can be recomputed, in a scope with Recompute::selective.
  void made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
            ops::RecomputeFunction compute) override;
  // Saves the inputs of `tensor` instead, if there is a recipe; else returns null.
  std::unique_ptr<SavedTensor> save_recomputable(const at::Tensor& tensor);

  ChunkEngine& chunks_;
  Recompute recompute_;
  ActivationStore store_;
  int64_t first_block_ = 0;
  // Of the block that runs or is recomputed, if Recompute::full_blocks includes it; else null.
  std::shared_ptr<Replay> replay_;
  std::unordered_map<const c10::StorageImpl*, Recipe> recipes_;  // by storage of the result
};

}  // namespace colossal::memory
