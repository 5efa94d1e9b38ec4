#include "colossal/memory/chunk_fetcher.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"

namespace colossal::memory {

ChunkFetcher::ChunkFetcher(std::vector<Chunk*> chunks, const comm::Group& ranks, int tensor_parts,
                           int64_t window_bytes, bool any_order, const OrderOfStages& order)
    : chunks_(std::move(chunks)),
      ranks_(ranks),
      tensor_parts_(tensor_parts),
      window_bytes_(window_bytes),
      any_order_(any_order) {
  any_transient_ = !transient_chunks().empty();
  any_on_nvme_ = std::ranges::any_of(
      chunks_, [](const Chunk* chunk) { return chunk->tiers().parameters == Tier::nvme; });
  for (const auto& [stage, order_of_stage] : order) plan(stage, order_of_stage);
}

std::vector<int> ChunkFetcher::transient_chunks() const {
  std::vector<int> found;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i]->weights_are_transient()) found.push_back(static_cast<int>(i));
  }
  return found;
}

// Returns sizes that are equal on all ranks, even if tensors are divided unevenly.
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

void ChunkFetcher::plan(int stage, const OrderOfUse& order) {
  const std::vector<int64_t> bytes = chunk_bytes();
  StagePlans& plans = stages_[stage];
  std::vector<int> all = order.forward;
  all.push_back(kEndOfForward);
  plans.forward_steps = all.size();
  all.insert(all.end(), order.backward.begin(), order.backward.end());
  plans.training = plan_fetches(all, bytes, window_bytes_);
  plans.forward = plan_fetches(order.forward, bytes, window_bytes_);
  plans.backward = plan_fetches(order.backward, bytes, window_bytes_);
  plans.order_known = plans.order_asked = true;
  inference_ = plan_repeated_fetches(order.forward, bytes, window_bytes_);
}

// If the stage's order of use is not known yet, the plan fetches all chunks at once.
ChunkFetcher::StagePlans& ChunkFetcher::plans_of(int stage) {
  const auto found = stages_.find(stage);
  if (found != stages_.end()) return found->second;
  StagePlans& made = stages_[stage];
  made.training = made.forward = made.backward = plan_all_at_once(transient_chunks());
  return made;
}

void ChunkFetcher::begin(int stage, Pass pass, const FetchPlan& plan) {
  COLOSSAL_CHECK(!running_, "a pass of stage {} begins in another one, of {} uses", stage,
                 running_->steps.size());
  running_ = &plan;
  stage_ = stage;
  pass_ = pass;
  entered_ = 0;
  in_backward_ = pass == Pass::backward;
  has_left_plan_ = false;
  OrderOfUse& recorded = recorded_[stage];
  if (!in_backward_) recorded.forward.clear();
  recorded.backward.clear();
  if (!plan.steps.empty()) enter_next_step();
}

void ChunkFetcher::begin_training(int stage) {
  if (any_transient_) begin(stage, Pass::training, plans_of(stage).training);
}

void ChunkFetcher::begin_forward(int stage) {
  if (any_transient_) begin(stage, Pass::forward, plans_of(stage).forward);
}

void ChunkFetcher::begin_backward(int stage) {
  if (!any_transient_) return;
  if (!running_) return begin(stage, Pass::backward, plans_of(stage).backward);
  COLOSSAL_CHECK(pass_ == Pass::training && stage == stage_,
                 "stage {} goes backward after a forward pass of stage {}", stage, stage_);
  in_backward_ = true;
  const StagePlans& plans = plans_of(stage);
  // Enters the step between the passes (kEndOfForward), after those of uses that this rank has
  // skipped.
  while (plans.order_known && !has_left_plan_ && entered_ < plans.forward_steps) enter_next_step();
}

void ChunkFetcher::begin_evaluation(int stage) {
  if (any_transient_) begin(stage, Pass::evaluation, plans_of(stage).forward);
}

void ChunkFetcher::begin_gathering(int stage) {
  if (!any_transient_) return;
  gathering_ = plan_all_at_once(transient_chunks());
  begin(stage, Pass::evaluation, gathering_);
}

void ChunkFetcher::begin_on_demand(int stage) {
  if (!any_transient_) return;
  begin(stage, Pass::forward, on_demand_);
  has_left_plan_ = true;
}

void ChunkFetcher::begin_inference() {
  if (!any_transient_) return;
  COLOSSAL_CHECK(plans_of(0).order_known, "inference over {} chunks in an unknown order",
                 chunks_.size());
  begin(0, Pass::inference, inference_);
}

void ChunkFetcher::end() {
  if (!running_) return;
  end_node_uses();
  if (has_left_plan_) {
    for (const int chunk : std::exchange(recent_, {})) chunks_[chunk]->release_weights();
  } else {
    while (entered_ < running_->steps.size()) enter_next_step();
    for (const int chunk : running_->release_at_end) chunks_[chunk]->release_weights();
  }
  running_ = nullptr;
  if (in_backward_ && !std::exchange(plans_of(stage_).order_asked, true)) agree(stage_);
}

void ChunkFetcher::enter_next_step() {
  const at::NoGradGuard no_grad;
  // What copies and gathers the weights does not use them (FetchOnDispatch).
  const c10::impl::ExcludeDispatchKeyGuard not_fetching(
      c10::DispatchKey::TESTING_ONLY_GenericWrapper);
  const size_t number = entered_++;
  const FetchStep& step = *running_->step(number);
  for (int chunk : step.release) chunks_[chunk]->release_weights();
  load_ahead(number, 0);
  for (size_t i = 0; i < step.fetch.size(); ++i) {
    Chunk& chunk = *chunks_[step.fetch[i]];
    if (brings_experts_when_used(chunk)) {
      chunk.fetch_when_used();
    } else {
      chunk.fetch([&] { load_ahead(number, i); });
    }
  }
}

// Reads from NVMe to host memory what is fetched next: from entry `fetch` of step `number` on, and
// in later steps. Keeps half the window's bytes under way, so that NVMe is never idle.
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
      if (brings_experts_when_used(chunk)) continue;
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

bool ChunkFetcher::brings_experts_when_used(const Chunk& chunk) const {
  return chunk.can_fetch_experts() && (pass_ == Pass::evaluation || pass_ == Pass::inference);
}

void ChunkFetcher::before_use(int index) {
  prepare_use(index);
  chunks_[index]->fetch_all();
  chunks_[index]->begin_use();
}

void ChunkFetcher::before_use_of(int index, size_t slot, const std::vector<int64_t>& counts) {
  prepare_use(index);
  chunks_[index]->fetch_experts(slot, counts);
  chunks_[index]->begin_use();
}

void ChunkFetcher::prepare_use(int index) {
  Chunk& chunk = *chunks_[index];
  if (chunk.weights_are_transient()) {
    COLOSSAL_CHECK(running_, "weights of chunk {} are used outside of a micro-batch", index);
    advance_to(index);
    OrderOfUse& recorded = recorded_[stage_];
    std::vector<int>& record = in_backward_ ? recorded.backward : recorded.forward;
    const bool again = !record.empty() && record.back() == index;
    if (!again && !running_->repeat_from) record.push_back(index);
  }
  chunk.wait_for_weights();
}

void ChunkFetcher::advance_to(int chunk) {
  if (has_left_plan_) return fetch_on_demand(chunk);
  if (!plans_of(stage_).order_known) return;  // all chunks are fetched
  const auto uses = [&](size_t number) {
    const FetchStep* const step = running_->step(number);
    return step && step->chunk == chunk;
  };
  if (uses(entered_)) return enter_next_step();
  // The chunk was fetched before its turn, and this rank has skipped the uses before it. A later
  // use, or end(), enters the steps in between.
  if (chunks_[chunk]->wanted()) return;
  const size_t steps = running_->steps.size();
  size_t next = entered_;
  while (next < entered_ + steps && !uses(next)) ++next;
  if (any_order_ && !uses(next)) {
    leave_plan();
    return fetch_on_demand(chunk);
  }
  COLOSSAL_CHECK(uses(next),
                 "weights of chunk {}, of {}, are used again after {} of {} uses of a micro-batch: "
                 "not in the order of earlier ones",
                 chunk, chunks_[chunk]->plan.slots.front().parameter->name, entered_, steps);
  while (entered_ <= next) enter_next_step();
}

void ChunkFetcher::leave_plan() {
  has_left_plan_ = true;
  for (const int chunk : transient_chunks()) {
    if (chunks_[chunk]->wanted()) recent_.push_back(chunk);
  }
  if (std::exchange(has_warned_, true) || ranks_.rank() != 0) return;
  log::warn(
      "a pass uses parameters in another order than the first one did: from there on, sharded or "
      "offloaded parameters are fetched when they are used, and not ahead");
}

// Releases the chunks whose last use is longest ago, until the window has room for the chunk. The
// sizes are the same on all ranks, so ranks with the same uses fetch the same chunks.
void ChunkFetcher::fetch_on_demand(int chunk) {
  std::erase(recent_, chunk);
  if (!chunks_[chunk]->wanted()) {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard not_fetching(
        c10::DispatchKey::TESTING_ONLY_GenericWrapper);
    const std::vector<int64_t> bytes = chunk_bytes();
    int64_t sum = bytes[chunk];
    for (const int other : recent_) sum += bytes[other];
    while (!recent_.empty() && sum > window_bytes_) {
      sum -= bytes[recent_.front()];
      chunks_[recent_.front()]->release_weights();
      recent_.erase(recent_.begin());
    }
    chunks_[chunk]->fetch([] {});
  }
  recent_.push_back(chunk);
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

// Called once, after the first micro-batch of an unknown order. Adopts the order of the rank with
// the most uses, if it contains the orders of all other ranks (which skip some uses).
void ChunkFetcher::agree(int stage) {
  std::vector<OrderOfUse> orders;
  for (const std::string& text :
       comm::gather_distinct_bytes(recorded_[stage].to_text(), ranks_, comm::Reason::control)) {
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
  if (agreed) return plan(stage, *longest);
  if (ranks_.rank() == 0) {
    log::warn(
        "ranks use parameters in different orders, so all sharded or offloaded parameters are "
        "fetched for each micro-batch");
  }
}

}  // namespace colossal::memory
