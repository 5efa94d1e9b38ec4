#include "colossal/memory/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::memory {
namespace {

// Whole gradients that are being reduced, besides the one that is being filled.
constexpr size_t kReductionsUnderWay = 1;

}  // namespace

// Called after the node that accumulates the gradient, and after the one hook that a tensor may
// have for this itself, which is the user's.
class GradientReducer::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientReducer& reducer, Chunk& chunk, size_t slot, bool tied, at::Tensor leaf)
      : reducer_(reducer), chunk_(chunk), slot_(slot), tied_(tied), leaf_(std::move(leaf)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    reducer_.collect(chunk_, slot_, tied_, leaf_);
    return outputs;
  }

 private:
  GradientReducer& reducer_;
  Chunk& chunk_;
  size_t slot_;
  bool tied_;
  at::Tensor leaf_;
};

GradientReducer::GradientReducer(std::vector<Chunk*> trained, ChunkMemory& memory,
                                 bool once_per_step)
    : trained_(std::move(trained)), memory_(memory), once_per_step_(once_per_step) {
  std::sort(trained_.begin(), trained_.end(),
            [](const Chunk* a, const Chunk* b) { return a->plan.first_use > b->plan.first_use; });
  for (Chunk* chunk : trained_) {
    if (chunk->reduces_tied_apart()) {
      launch_orders_[chunk->stage].push_back({chunk, /*tied=*/true});
    }
  }
  for (Chunk* chunk : trained_) launch_orders_[chunk->stage].push_back({chunk, /*tied=*/false});
}

void GradientReducer::watch(const at::Tensor& leaf, Chunk& chunk, size_t slot, bool tied) {
  // The leaf does not keep its node, and a new one would not have the hook.
  auto node = torch::autograd::impl::grad_accumulator(leaf);
  const uintptr_t hook =
      node->add_post_hook(std::make_unique<Hook>(*this, chunk, slot, tied, leaf));
  watched_.push_back({std::move(node), hook});
}

GradientReducer::~GradientReducer() {
  for (const Watched& each : watched_) each.node->del_post_hook(each.hook);
}

void GradientReducer::begin_step() {
  reduced_stages_.clear();
  for (Chunk* chunk : trained_) chunk->release_gradients();
}

void GradientReducer::begin_backward(bool last, int stage) {
  // Finish the reductions of the previous pass: this one fills their buffers again.
  while (!reducing_.empty()) finish_oldest_reduction();
  finish_keeping();
  if (reduced_stages_.erase(stage) > 0) {
    const at::NoGradGuard no_grad;
    for (Chunk* chunk : trained_) {
      if (chunk->stage == stage) chunk->continue_gradients();
    }
  }
  if (last) reduced_stages_.insert(stage);
  in_pass_ = true;
  last_pass_ = last;
  stage_ = stage;
  launch_order_ = &launch_orders_[stage];
  launched_ = 0;
  for (Chunk* chunk : trained_) expect_gradients(*chunk);
}

void GradientReducer::take(HeldGradients held) {
  for (HeldGradients::Held& each : held.held_) {
    take(*each.chunk, each.slot, each.tied, std::move(each.gradient));
  }
}

// Sets which gradients the pass that begins will bring: those of its stage's layers.
void GradientReducer::expect_gradients(Chunk& chunk) {
  chunk.pending = chunk.pending_tied = 0;
  for (size_t slot = 0; slot < chunk.slots.size(); ++slot) {
    const nn::Placement& placement = chunk.plan.slots[slot].parameter->placement;
    Chunk::SlotState& state = chunk.slots[slot];
    state.pending = placement.stage == stage_;
    state.pending_tied = placement.tied_stage == stage_;
    chunk.pending += (state.pending ? 1 : 0) + (state.pending_tied ? 1 : 0);
    chunk.pending_tied += state.pending_tied ? 1 : 0;
  }
}

bool GradientReducer::reduces_now(const Chunk& chunk) const {
  return last_pass_ || (chunk.reduces_each_micro_batch() && !once_per_step_);
}

void GradientReducer::collect(Chunk& chunk, size_t slot, bool tied, const at::Tensor& leaf) {
  if (!leaf.grad().defined()) return;  // the computation of this gradient is deferred
  if (!in_pass_ && !held_ && begin_unannounced_) begin_unannounced_();
  at::Tensor gradient = std::move(leaf.mutable_grad());
  if (held_) {
    held_->held_.push_back({&chunk, slot, tied, std::move(gradient)});
  } else {
    take(chunk, slot, tied, std::move(gradient));
  }
}

void GradientReducer::take(Chunk& chunk, size_t slot, bool tied, at::Tensor gradient) {
  at::NoGradGuard no_grad;
  Chunk::SlotState& state = chunk.slots[slot];
  const Slot& place = chunk.plan.slots[slot];
  bool& pending = tied ? state.pending_tied : state.pending;
  COLOSSAL_CHECK(pending, "parameter {} had two gradients of one layer in one backward",
                 place.parameter->name);
  if (!chunk.adopt_gradient(gradient)) {
    chunk.take_gradients();
    // Copying here and dropping autograd's tensor saves one pass over memory, compared with letting
    // autograd add to a zeroed view. It also lets bf16 gradients accumulate in fp32.
    const at::Tensor flat = gradient.contiguous().view(-1);
    const at::Tensor target = chunk.whole_gradients().narrow(0, place.offset, place.numel);
    if (state.unreduced) {
      ops::accumulate(target, flat);
    } else {
      ops::convert_copy(target, flat);
    }
  }
  gradient.reset();
  state.written = state.unreduced = true;
  pending = false;
  --chunk.pending;
  if (tied) --chunk.pending_tied;
  launch_ready_chunks();
}

void GradientReducer::launch_ready_chunks() {
  while (launched_ < launch_order_->size() && (*launch_order_)[launched_].ready()) {
    const Launch& next = (*launch_order_)[launched_++];
    if (reduces_now(*next.chunk)) launch(next);
  }
}

void GradientReducer::launch(const Launch& next) {
  at::NoGradGuard no_grad;
  Chunk& chunk = *next.chunk;
  chunk.begin_reduction();
  if (launched_last_) launched_last_->continue_reduction();
  launched_last_ = &chunk;
  if (!chunk.gradients_are_transient()) return;
  reducing_.push_back(next);
  // After the last tied gradient, finish all reductions: the same chunks' other gradients come
  // next.
  const bool last_tied = next.tied && !(*launch_order_)[launched_].tied;
  const size_t kept = last_tied ? 0 : kReductionsUnderWay;
  while (reducing_.size() > kept) finish_oldest_reduction();
}

void GradientReducer::finish_oldest_reduction() {
  at::NoGradGuard no_grad;
  const auto [chunk, tied] = reducing_.front();
  chunk->finish_reduction(last_pass_ && !tied);
  reducing_.pop_front();
  // A GPU moves the gradients to their tier while it computes the next chunk's.
  if (keeping_ != chunk) finish_keeping();
  keeping_ = chunk;
}

void GradientReducer::finish_keeping() {
  if (keeping_) keeping_->finish_keeping();
  keeping_ = nullptr;
}

void GradientReducer::end_backward() {
  in_pass_ = false;
  for (Chunk* chunk : trained_) chunk->pending = chunk->pending_tied = 0;
  launch_ready_chunks();
}

void GradientReducer::finish() {
  launched_last_ = nullptr;
  while (!reducing_.empty()) finish_oldest_reduction();
  finish_keeping();
  for (Chunk* chunk : trained_) {
    if (!chunk->gradients_are_transient()) chunk->finish_reduction(/*last=*/true);
  }
  memory_.gradient_writes.finish();
  for (Chunk* chunk : trained_) chunk->sum_over_ends();
  memory_.gradient_writes.finish();
}

ops::PendingSum GradientReducer::squared_norm() const {
  ops::PendingSum sum;
  for (const Chunk* chunk : trained_) {
    if (chunk->plan.placement.replica > 0) continue;  // the first replica counts it
    sum += chunk->squared_gradient_norm();
  }
  return sum;
}

}  // namespace colossal::memory
