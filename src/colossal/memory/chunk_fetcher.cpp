#include "colossal/memory/chunk_fetcher.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"

namespace colossal::memory {

ChunkFetcher::ChunkFetcher(std::vector<Chunk*> chunks, const comm::Group& world, int tensor_parts,
                           int64_t window_bytes, const std::optional<OrderOfUse>& order)
    : chunks_(std::move(chunks)),
      world_(world),
      tensor_parts_(tensor_parts),
      window_bytes_(window_bytes) {
  any_go_away_ = !chunks_that_go_away().empty();
  if (order) {
    plan(*order);
  } else {
    training_ = evaluation_ = plan_all_at_once(chunks_that_go_away());
  }
}

std::vector<int> ChunkFetcher::chunks_that_go_away() const {
  std::vector<int> found;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i]->weights_go_away()) found.push_back(static_cast<int>(i));
  }
  return found;
}

void ChunkFetcher::plan(const OrderOfUse& order) {
  std::vector<int64_t> bytes;
  for (const Chunk* chunk : chunks_) {
    // The same on all ranks, also where tensors are cut unevenly.
    bytes.push_back(chunk->plan.global_numel / tensor_parts_ * chunk->weights().element_bytes());
  }
  std::vector<int> all = order.forward;
  all.insert(all.end(), order.backward.begin(), order.backward.end());
  training_ = plan_fetches(all, bytes, window_bytes_);
  evaluation_ = plan_fetches(order.forward, bytes, window_bytes_);
  order_known_ = order_asked_ = true;
}

void ChunkFetcher::begin(const FetchPlan& plan) {
  COLOSSAL_CHECK(!running_, "a micro-batch begins in another one, of {} uses",
                 running_->steps.size());
  running_ = &plan;
  entered_ = 0;
  loads_.clear();
  for (const FetchStep& step : plan.steps) {
    loads_.insert(loads_.end(), step.fetch.begin(), step.fetch.end());
  }
  if (!plan.steps.empty()) enter_next_step();
}

void ChunkFetcher::begin_training() {
  if (!any_go_away_) return;
  recorded_ = {};
  training_runs_ = true;
  in_backward_ = false;
  begin(training_);
}

void ChunkFetcher::begin_backward() {
  in_backward_ = true;
}

void ChunkFetcher::begin_evaluation() {
  if (!any_go_away_) return;
  training_runs_ = false;
  begin(evaluation_);
}

void ChunkFetcher::end() {
  if (!running_) return;
  end_node_uses();
  while (entered_ < running_->steps.size()) enter_next_step();
  for (int chunk : running_->release_at_end) chunks_[chunk]->let_go();
  running_ = nullptr;
  if (training_runs_ && !std::exchange(order_asked_, true)) agree();
}

void ChunkFetcher::enter_next_step() {
  const at::NoGradGuard no_grad;
  const FetchStep& step = running_->steps[entered_++];
  for (int chunk : step.release) chunks_[chunk]->let_go();
  for (int chunk : step.fetch) {
    chunks_[chunk]->fetch();
    if (!loads_.empty()) loads_.pop_front();
  }
  load_ahead();
}

// From the disk to the host, for the fetches that come next.
void ChunkFetcher::load_ahead() {
  int64_t ahead = 0;
  for (int index : loads_) {
    Chunk& chunk = *chunks_[index];
    ahead += chunk.weights().bytes();
    if (ahead > window_bytes_ / 2 && index != loads_.front()) break;
    if (!chunk.loading()) chunk.begin_load();
  }
}

void ChunkFetcher::before_use(int index) {
  Chunk& chunk = *chunks_[index];
  if (chunk.weights_go_away()) {
    COLOSSAL_CHECK(running_, "weights of chunk {} are used outside of a micro-batch", index);
    advance_to(index);
    std::vector<int>& record = in_backward_ ? recorded_.backward : recorded_.forward;
    if (training_runs_ && (record.empty() || record.back() != index)) record.push_back(index);
  }
  chunk.wait_for_weights();
  chunk.begin_use();
}

void ChunkFetcher::advance_to(int chunk) {
  if (!order_known_) return;  // everything is here
  const auto& steps = running_->steps;
  const bool is_next = entered_ < steps.size() && steps[entered_].chunk == chunk;
  if (is_next) return enter_next_step();
  // Here, ahead of its place in the order: who left out uses between stays behind the others.
  if (chunks_[chunk]->wanted()) return;
  const auto found =
      std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(entered_), steps.end(),
                   [&](const FetchStep& s) { return s.chunk == chunk; });
  COLOSSAL_CHECK(found != steps.end(),
                 "weights of chunk {}, of {}, are used again after {} of {} uses of a micro-batch: "
                 "not in the order of earlier ones",
                 chunk, chunks_[chunk]->plan.slots.front().parameter->name, entered_, steps.size());
  while (entered_ == 0 || steps[entered_ - 1].chunk != chunk) enter_next_step();
}

void ChunkFetcher::use_in_node(int chunk) {
  const void* const node = torch::autograd::get_current_node().get();
  if (node != node_) end_node_uses();
  node_ = node;
  before_use(chunk);
  node_uses_.push_back(chunk);
}

void ChunkFetcher::end_node_uses() {
  for (int chunk : std::exchange(node_uses_, {})) after_use(chunk);
  node_ = nullptr;
}

// Once, after the first micro-batch of an unknown order: that of the rank which used most, if all
// others' come out of it by leaving uses out.
void ChunkFetcher::agree() {
  std::vector<OrderOfUse> orders;
  for (const std::string& text :
       comm::gather_bytes(recorded_.to_text(), world_, comm::Reason::control)) {
    orders.push_back(OrderOfUse::from_text(text));
  }
  const auto longest =
      std::max_element(orders.begin(), orders.end(), [](const OrderOfUse& a, const OrderOfUse& b) {
        return a.forward.size() + a.backward.size() < b.forward.size() + b.backward.size();
      });
  const bool agreed = std::all_of(orders.begin(), orders.end(), [&](const OrderOfUse& order) {
    return is_subsequence(order.forward, longest->forward) &&
           is_subsequence(order.backward, longest->backward);
  });
  if (agreed) return plan(*longest);
  if (world_.rank() == 0) {
    log::warn(
        "ranks use parameters in different orders: all of those that are sharded or offloaded are "
        "brought for each micro-batch");
  }
}

}  // namespace colossal::memory
