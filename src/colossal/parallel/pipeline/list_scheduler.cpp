#include "colossal/parallel/pipeline/list_scheduler.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/communication.h"
#include "colossal/parallel/pipeline/execution.h"
#include "colossal/parallel/pipeline/simulator.h"

namespace colossal::parallel::pipeline {
namespace {

enum class Rule {
  first_ready,   // choose the first computation that is ready
  drain,         // as first_ready; weight gradients come last after the last forward of a rank
  weights_last,  // choose a weight gradient only if nothing else is ready
};

constexpr double kNever = std::numeric_limits<double>::infinity();

int change_of_held(ActionKind kind) {
  return kind == ActionKind::forward ? 1 : completes_backward(kind) ? -1 : 0;
}

// Simulates a schedule and chooses the next computation of each rank whenever the rank is free.
class ListScheduler {
 public:
  ListScheduler(const Schedule& order, const Costs& costs, int in_flight, int buffers, Rule rule)
      : order_(order),
        costs_(costs),
        in_flight_(in_flight),
        buffers_(buffers),
        rule_(rule),
        channels_(num_channels(order)) {
    end_.assign(size_t{3} * order.num_stages() * order.num_micro_batches, kNever);
    for (const std::vector<Action>& actions : order.actions) {
      ranks_.push_back({.remaining = {actions.begin(), actions.end()}});
      ranks_.back().forwards_left =
          static_cast<int>(std::ranges::count(actions, ActionKind::forward, &Action::kind));
      result_.emplace_back();
    }
  }

  Schedule run() {
    for (int rank = 0; rank < order_.num_ranks(); ++rank) events_.push({0, rank});
    while (!events_.empty()) {
      const auto [now, rank] = events_.top();
      events_.pop();
      if (ranks_[rank].free_at > now || ranks_[rank].remaining.empty()) continue;
      const int chosen = choose(ranks_[rank], now);
      if (chosen >= 0) start(rank, chosen, now);
    }
    Schedule schedule = order_;
    for (int rank = 0; rank < order_.num_ranks(); ++rank) {
      COLOSSAL_CHECK(ranks_[rank].remaining.empty(), "rank {}: {} computations left", rank,
                     ranks_[rank].remaining.size());
      schedule.actions[rank] = std::move(result_[rank]);
    }
    return schedule;
  }

 private:
  struct Rank {
    std::deque<Action> remaining;  // in the order of `order`
    double free_at = 0;
    int held = 0;
    int forwards_left = 0;
  };

  struct Channel {
    size_t sent = 0;
    std::vector<double> used_at;  // time at which the receiver has used each message
  };

  // A time and a rank that should look for its next computation: the rank is free, a message has
  // arrived, or the receiver has used a message of the rank. The earliest comes first.
  using Event = std::pair<double, int>;

  // Returns the index of the computation to start; -1: none.
  int choose(const Rank& rank, double now) const {
    const bool weights_late =
        rule_ == Rule::weights_last || (rule_ == Rule::drain && rank.forwards_left == 0);
    int weight = -1;
    // What the rank would hold after the computations that are passed over, and the maximum.
    int held = rank.held, most = std::numeric_limits<int>::min();
    for (int i = 0; i < std::min(static_cast<int>(rank.remaining.size()), look_ahead()); ++i) {
      const Action& action = rank.remaining[i];
      const int change = change_of_held(action.kind);
      if (ready_at(action) <= now && fits(rank.held, most, change) &&
          (i == 0 || sends_at_once(action, now))) {
        const bool later = weights_late && action.kind == ActionKind::backward_weight;
        if (!later) return i;
        if (weight < 0) weight = i;
      }
      held += change;
      most = std::max(most, held);
    }
    return weight;
  }

  // Returns whether the rank stays within in_flight_ if a computation moves before others. most:
  // the maximum that the rank holds after any of the others, without the computation.
  bool fits(int held, int most, int change) const {
    return change <= 0 || std::max(held, most) + change <= in_flight_;
  }

  // Returns whether the result can be sent at once. The receiver asks for `buffers` messages more
  // than it has used, and as many sends may be in progress before them.
  bool sends_at_once(const Action& action, double now) const {
    const auto send = send_after(order_, action);
    if (!send) return true;
    const Channel& channel = channels_[channel_of(order_, *send)];
    const size_t ahead = 2 * static_cast<size_t>(buffers_);
    if (channel.sent < ahead) return true;
    const size_t number = channel.sent - ahead;
    return number < channel.used_at.size() && channel.used_at[number] <= now;
  }

  // Later computations belong to micro-batches that cannot have arrived: while a micro-batch goes
  // down and up the ranks, forward and backward, one rank computes at most this many.
  int look_ahead() const { return 12 * order_.num_ranks(); }

  void start(int index, int place, double now) {
    Rank& rank = ranks_[index];
    const Action action = rank.remaining[place];
    rank.remaining.erase(rank.remaining.begin() + place);
    rank.held += change_of_held(action.kind);
    if (action.kind == ActionKind::forward) --rank.forwards_left;
    rank.free_at = now + costs_.of_computation(action);
    end_[index_of(action.kind, action.stage, action.micro_batch)] = rank.free_at;
    result_[index].push_back(action);
    events_.push({rank.free_at, index});
    if (const auto send = send_after(order_, action)) {
      ++channels_[channel_of(order_, *send)].sent;
      events_.push({rank.free_at + seconds_of(*send), rank_of(receive_of(*send))});
    }
    if (const auto receive = receive_before(order_, action)) {
      channels_[channel_of(order_, *receive)].used_at.push_back(rank.free_at);
      events_.push({rank.free_at, rank_of(send_of(*receive))});
    }
  }

  int rank_of(const Action& action) const { return order_.rank_of_stage[action.stage]; }

  size_t index_of(ActionKind kind, int stage, int micro_batch) const {
    const size_t row = static_cast<size_t>(kind) * order_.num_stages() + stage;
    return row * order_.num_micro_batches + micro_batch;
  }

  double end_of(ActionKind kind, int stage, int micro_batch) const {
    return end_[index_of(kind, stage, micro_batch)];
  }

  double seconds_of(const Action& message) const {
    const Action send = is_send(message.kind) ? message : send_of(message);
    return costs_.of_boundary(is_forward(send.kind) ? send.stage : send.stage - 1);
  }

  // Returns when the input of a computation arrives; kNever if that is not known yet.
  double ready_at(const Action& action) const {
    const int stage = action.stage, micro_batch = action.micro_batch;
    if (action.kind == ActionKind::backward_weight) {
      return end_of(ActionKind::backward_input, stage, micro_batch);
    }
    const auto receive = receive_before(order_, action);
    const double message = receive ? seconds_of(*receive) : 0;
    if (action.kind == ActionKind::forward) {
      return stage == 0 ? 0 : end_of(ActionKind::forward, stage - 1, micro_batch) + message;
    }
    const double forward = end_of(ActionKind::forward, stage, micro_batch);
    if (stage == order_.num_stages() - 1) return forward;
    return std::max(forward, end_of(ActionKind::backward_input, stage + 1, micro_batch) + message);
  }

  const Schedule& order_;
  const Costs& costs_;
  const int in_flight_;
  const int buffers_;
  const Rule rule_;
  std::vector<Rank> ranks_;
  std::vector<Channel> channels_;
  std::vector<double> end_;  // [forward, backward_input, backward_weight][stage][micro-batch]
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::vector<Action>> result_;
};

// Returns the length of a schedule and, to decide between equal lengths, the time that ranks wait
// between their first and their last computation. Less is better.
std::pair<double, double> length_of(const Schedule& order, const Costs& costs, int buffers) {
  const Schedule schedule = with_communication(order, buffers);
  // Buffers limit how far ranks run ahead of each other; an order that needs more never finishes.
  if (!execute(schedule, {}).complete()) return {kNever, kNever};
  const Simulation simulation = simulate(schedule, costs);
  double bubbles = 0;
  for (const SimulatedRank& rank : simulation.ranks) bubbles += rank.bubble();
  return {simulation.makespan, bubbles};
}

}  // namespace

Schedule list_schedule(const Schedule& order, const Costs& costs, int in_flight, int buffers) {
  Schedule best = order;
  auto shortest = length_of(order, costs, buffers);
  for (const Rule rule : {Rule::first_ready, Rule::drain, Rule::weights_last}) {
    Schedule schedule = ListScheduler(order, costs, in_flight, buffers, rule).run();
    const auto length = length_of(schedule, costs, buffers);
    if (length >= shortest) continue;
    shortest = length;
    best = std::move(schedule);
  }
  return best;
}

}  // namespace colossal::parallel::pipeline
