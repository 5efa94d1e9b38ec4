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
  any_on_nvme_ = std::ranges::any_of(
      chunks_, [](const Chunk* chunk) { return chunk->tiers().parameters == Tier::nvme; });
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

// The same on all ranks, also where tensors are cut unevenly.
std::vector<int64_t> ChunkFetcher::chunk_bytes() const {
  std::vector<int64_t> bytes;
  for (const Chunk* chunk : chunks_) {
    bytes.push_back(chunk->plan.global_numel / tensor_parts_ * chunk->weights().element_bytes());
  }
  return bytes;
}

int64_t ChunkFetcher::inference_peak_bytes() const {
  return peak_bytes(inference_, chunk_bytes());
}

void ChunkFetcher::plan(const OrderOfUse& order) {
  const std::vector<int64_t> bytes = chunk_bytes();
  std::vector<int> all = order.forward;
  all.push_back(kNoUse);
  forward_steps_ = all.size();
  all.insert(all.end(), order.backward.begin(), order.backward.end());
  training_ = plan_fetches(all, bytes, window_bytes_);
  evaluation_ = plan_fetches(order.forward, bytes, window_bytes_);
  inference_ = plan_repeated_fetches(order.forward, bytes, window_bytes_);
  order_known_ = order_asked_ = true;
}

void ChunkFetcher::begin(const FetchPlan& plan) {
  COLOSSAL_CHECK(!running_, "a micro-batch begins in another one, of {} uses",
                 running_->steps.size());
  running_ = &plan;
  entered_ = 0;
  recorded_ = {};
  in_backward_ = false;
  if (!plan.steps.empty()) enter_next_step();
}

void ChunkFetcher::begin_training() {
  if (!any_go_away_) return;
  training_runs_ = true;
  begin(training_);
}

void ChunkFetcher::begin_backward() {
  in_backward_ = true;
  if (!running_ || !order_known_) return;
  while (entered_ < forward_steps_) enter_next_step();
}

void ChunkFetcher::begin_evaluation() {
  if (!any_go_away_) return;
  training_runs_ = false;
  begin(evaluation_);
}

void ChunkFetcher::begin_inference() {
  if (!any_go_away_) return;
  COLOSSAL_CHECK(order_known_, "inference over {} chunks in an unknown order", chunks_.size());
  training_runs_ = false;
  begin(inference_);
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
  const size_t number = entered_++;
  const FetchStep& step = *running_->step(number);
  for (int chunk : step.release) chunks_[chunk]->let_go();
  load_ahead(number, 0);
  for (size_t i = 0; i < step.fetch.size(); ++i) {
    chunks_[step.fetch[i]]->fetch([&] { load_ahead(number, i); });
  }
}

// From the disk to the host, for what is fetched next: fetches of step `number` from this one on,
// and of those after it. As much as is allowed is always under way, so that the disk never rests.
void ChunkFetcher::load_ahead(size_t number, size_t fetch) {
  if (!any_on_nvme_) return;
  const int64_t allowed = std::max<int64_t>(1, window_bytes_ / 2);
  const size_t last = number + running_->steps.size();
  int64_t ahead = 0;
  for (; number < last; ++number, fetch = 0) {
    const FetchStep* const step = running_->step(number);
    if (!step) return;
    for (; fetch < step->fetch.size(); ++fetch) {
      Chunk& chunk = *chunks_[step->fetch[fetch]];
      ahead += chunk.loading_bytes();
      while (ahead < allowed) {
        const int64_t begun = chunk.begin_load();
        if (begun == 0) break;
        ahead += begun;
      }
      if (ahead >= allowed) return;
    }
  }
}

void ChunkFetcher::before_use(int index) {
  Chunk& chunk = *chunks_[index];
  if (chunk.weights_go_away()) {
    COLOSSAL_CHECK(running_, "weights of chunk {} are used outside of a micro-batch", index);
    advance_to(index);
    std::vector<int>& record = in_backward_ ? recorded_.backward : recorded_.forward;
    const bool again = !record.empty() && record.back() == index;
    if (!again && !running_->repeat_from) record.push_back(index);
  }
  chunk.wait_for_weights();
  chunk.begin_use();
}

void ChunkFetcher::advance_to(int chunk) {
  if (!order_known_) return;  // everything is here
  const auto uses = [&](size_t number) {
    const FetchStep* const step = running_->step(number);
    return step && step->chunk == chunk;
  };
  if (uses(entered_)) return enter_next_step();
  // Here, ahead of its place in the order: who left out uses between stays behind the others.
  if (chunks_[chunk]->wanted()) return;
  const size_t steps = running_->steps.size();
  size_t next = entered_;
  while (next < entered_ + steps && !uses(next)) ++next;
  COLOSSAL_CHECK(uses(next),
                 "weights of chunk {}, of {}, are used again after {} of {} uses of a micro-batch: "
                 "not in the order of earlier ones",
                 chunk, chunks_[chunk]->plan.slots.front().parameter->name, entered_, steps);
  while (entered_ <= next) enter_next_step();
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
