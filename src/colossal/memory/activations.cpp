#include "colossal/memory/activations.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/memory/saved_version.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/nn/router_records.h"

namespace colossal::memory {

class Activations::WeightReference final : public SavedTensor {
 public:
  WeightReference(ChunkEngine& chunks, const at::Tensor& weight)
      : chunks_(chunks), weight_(weight), version_(weight) {}
  at::Tensor restore() override {
    version_.check(weight_.sizes());
    chunks_.use_in_node(weight_);
    return weight_;
  }

 private:
  ChunkEngine& chunks_;
  at::Tensor weight_;
  SavedVersion version_;
};

// The forward pass of a block that keeps only the block's input. Saved tensors are numbered. The
// first restore() runs the block again, which saves the tensors again in the same order.
class Activations::Replay : public std::enable_shared_from_this<Replay> {
 public:
  Replay(Activations& activations, int64_t index, nn::Block& block, const nn::BlockState& before,
         nn::StepContext context)
      : activations_(activations), index_(index), block_(block), context_(std::move(context)) {
    for (const at::Tensor& stream : before.streams) {
      streams_.push_back({activations.store_.save(stream.detach()), stream.requires_grad()});
    }
    // Many blocks read the same conditions, so they are kept as they are, without their graphs.
    for (const at::Tensor& condition : before.conditions) {
      conditions_.push_back(condition.detach().requires_grad_(condition.requires_grad()));
    }
    // The first run has recorded the routers already: the second one records into records_.
    if (!context_.services.router_records) return;
    records_.for_losses = context_.services.router_records->for_losses;
    context_.services.router_records = &records_;
  }

  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor);

  at::Tensor restore(size_t number) {
    if (!runs_again_) run_again();
    COLOSSAL_CHECK(captured_[number].defined(), "tensor {} of {} of block {} is asked for twice",
                   number, num_saved_, index_);
    return std::move(captured_[number]);
  }

 private:
  void run_again() {
    const at::AutoGradMode with_graph(true);
    const SavedTensorScope saving(activations_);
    const ops::RecomputableResultScope nobody_listens(nullptr);
    const nn::LayerScope scope([&] { return fmt::format("recompute.blocks.{}", index_); });
    runs_again_ = true;
    const auto outer = std::exchange(activations_.replay_, shared_from_this());
    nn::BlockState before{.streams = {}, .conditions = std::move(conditions_)};
    // Which tensors autograd saves depends on which inputs require a gradient.
    for (const auto& [saved, requires_grad] : streams_) {
      before.streams.push_back(saved->restore().detach().requires_grad_(requires_grad));
    }
    streams_.clear();
    block_.forward(before, context_);
    activations_.replay_ = outer;
    COLOSSAL_CHECK(captured_.size() == num_saved_, "block {} saved {} tensors, then {}", index_,
                   num_saved_, captured_.size());
  }

  Activations& activations_;
  int64_t index_;
  nn::Block& block_;
  struct SavedStream {
    std::unique_ptr<SavedTensor> saved;
    bool requires_grad;
  };
  std::vector<SavedStream> streams_;
  std::vector<at::Tensor> conditions_;
  nn::StepContext context_;
  nn::RouterRecords records_;  // of the second run
  size_t num_saved_ = 0;
  bool runs_again_ = false;
  std::vector<at::Tensor> captured_;
};

class Activations::ReplayedTensor final : public SavedTensor {
 public:
  ReplayedTensor(std::shared_ptr<Replay> replay, size_t number)
      : replay_(std::move(replay)), number_(number) {}
  at::Tensor restore() override { return replay_->restore(number_); }

 private:
  std::shared_ptr<Replay> replay_;
  size_t number_;
};

std::unique_ptr<SavedTensor> Activations::Replay::save(const at::Tensor& tensor) {
  if (!runs_again_) return std::make_unique<ReplayedTensor>(shared_from_this(), num_saved_++);
  note_saved_tensor(tensor);
  captured_.push_back(tensor);
  return nullptr;  // the second run's graph is never traversed
}

// A view of a result that is computed again in the backward pass.
class Activations::RecomputableTensor final : public SavedTensor {
 public:
  RecomputableTensor(const at::Tensor& view, std::vector<std::unique_ptr<SavedTensor>> inputs,
                     ops::RecomputeFunction compute)
      : place_(view), inputs_(std::move(inputs)), compute_(std::move(compute)) {}

  at::Tensor restore() override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> inputs;
    for (const auto& input : inputs_) inputs.push_back(input ? input->restore() : at::Tensor());
    return place_.in(compute_(inputs));
  }

 private:
  ViewGeometry place_;
  std::vector<std::unique_ptr<SavedTensor>> inputs_;
  ops::RecomputeFunction compute_;
};

Activations::Activations(ChunkEngine& chunks, const Recompute& recompute, const TierShares& offload)
    : chunks_(chunks), recompute_(recompute), store_(chunks.tier_pools(), offload) {}

nn::BlockState Activations::run(int64_t index, nn::Block& block, const nn::BlockState& state,
                                const nn::StepContext& context) {
  if (!at::GradMode::is_enabled()) return block.forward(state, context);
  if (index - first_block_ >= recompute_.full_blocks) {
    nn::BlockState after = block.forward(state, context);
    recipes_.clear();  // only the block that computes a result saves it
    return after;
  }
  const ops::RecomputableResultScope nobody_listens(nullptr);
  replay_ = std::make_shared<Replay>(*this, index, block, state, context);
  nn::BlockState after = block.forward(state, context);
  replay_ = nullptr;
  return after;
}

std::unique_ptr<SavedTensor> Activations::save(const at::Tensor& tensor) {
  // Tensors of a tracer, such as torch.compile's, have no values to move.
  if (tensor.unsafeGetTensorImpl()->is_python_dispatch()) return keep(tensor);
  if (chunks_.is_transient(tensor)) return std::make_unique<WeightReference>(chunks_, tensor);
  if (replay_) return replay_->save(tensor);
  if (auto cheap = save_recomputable(tensor)) return cheap;
  return chunks_.is_weight(tensor) ? keep(tensor) : store_.save(tensor);
}

void Activations::made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                       ops::RecomputeFunction compute) {
  Recipe recipe{result.storage().getWeakStorageImpl(), {}, std::move(compute)};
  for (const at::Tensor& input : inputs) {
    recipe.inputs.push_back(input.defined() ? input.detach() : at::Tensor());
  }
  recipes_.insert_or_assign(result.storage().unsafeGetStorageImpl(), std::move(recipe));
}

std::unique_ptr<SavedTensor> Activations::save_recomputable(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  const auto found = recipes_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == recipes_.end() || found->second.result.expired()) return nullptr;
  // A copy, because save(input) may call this function again.
  const Recipe recipe = found->second;
  std::vector<std::unique_ptr<SavedTensor>> inputs;
  for (const at::Tensor& input : recipe.inputs) {
    inputs.push_back(input.defined() ? save(input) : nullptr);
  }
  return std::make_unique<RecomputableTensor>(tensor, std::move(inputs), recipe.compute);
}

}  // namespace colossal::memory
