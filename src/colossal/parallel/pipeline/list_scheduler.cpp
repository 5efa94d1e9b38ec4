#include "colossal/parallel/pipeline/list_scheduler.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/communication.h"
#include "colossal/parallel/pipeline/simulator.h"

namespace colossal::parallel::pipeline {
namespace {

enum class Rule {
  first_ready,   // the first that is ready
  drain,         // as first_ready; after the last forward of a rank, weight gradients come last
  weights_last,  // weight gradients only where nothing else is ready
};

constexpr double kNever = std::numeric_limits<double>::infinity();

int change_of_held(ActionKind kind) {
  return kind == ActionKind::forward ? 1 : frees_activation(kind) ? -1 : 0;
}

// Runs a schedule in time, choosing the next computation of each rank when it is free.
class ListScheduler {
 public:
  ListScheduler(const Schedule& order, const Costs& costs, int in_flight, Rule rule)
      : order_(order),
        costs_(costs),
        in_flight_(in_flight),
        rule_(rule),
        ranks_(order.num_ranks()) {
    const size_t size = size_t{3} * order.num_stages() * order.num_micro_batches;
    end_.assign(size, kNever);
    for (int rank = 0; rank < order.num_ranks(); ++rank) {
      ranks_[rank].remaining = order.actions[rank];
      ranks_[rank].forwards_left = static_cast<int>(
          std::ranges::count(order.actions[rank], ActionKind::forward, &Action::kind));
    }
  }

  Schedule run() {
    Schedule result = order_;
    for (std::vector<Action>& actions : result.actions) actions.clear();
    times_.push(0);
    while (!times_.empty()) {
      const double now = times_.top();
      while (!times_.empty() && times_.top() == now) times_.pop();
      start_what_can(now, result);
    }
    for (const Rank& rank : ranks_) {
      COLOSSAL_CHECK(rank.remaining.empty(), "{} computations left", rank.remaining.size());
    }
    return result;
  }

 private:
  struct Rank {
    std::vector<Action> remaining;  // in the given order
    double free_at = 0;
    int held = 0;
    int forwards_left = 0;
  };

  // A computation of no length may make another one of the same time ready.
  void start_what_can(double now, Schedule& result) {
    bool started = true;
    while (started) {
      started = false;
      for (int rank = 0; rank < order_.num_ranks(); ++rank) {
        if (ranks_[rank].free_at > now || ranks_[rank].remaining.empty()) continue;
        const int chosen = choose(ranks_[rank], now);
        if (chosen < 0) continue;
        result.actions[rank].push_back(start(ranks_[rank], chosen, now));
        started = true;
      }
    }
  }

  // The index of the computation that is to start; -1: none.
  int choose(const Rank& rank, double now) const {
    const bool weights_late =
        rule_ == Rule::weights_last || (rule_ == Rule::drain && rank.forwards_left == 0);
    int weight = -1;
    // What is held after each computation that would be passed over, and the most of it.
    int held = rank.held, most = std::numeric_limits<int>::min();
    for (int i = 0; i < std::min(static_cast<int>(rank.remaining.size()), look_ahead()); ++i) {
      const Action& action = rank.remaining[i];
      const int change = change_of_held(action.kind);
      if (ready_at(action) <= now && fits(rank.held, most, change)) {
        const bool later = weights_late && action.kind == ActionKind::backward_weight;
        if (!later) return i;
        if (weight < 0) weight = i;
      }
      held += change;
      most = std::max(most, held);
    }
    return weight;
  }

  // Whether what is held stays within bounds when a computation comes before others, after which
  // `most` would be held without it.
  bool fits(int held, int most, int change) const {
    return change <= 0 || std::max(held, most) + change <= in_flight_;
  }

  // Computations further behind belong to micro-batches that are not here yet: a micro-batch passes
  // down and up the ranks, forward and backward, while one rank computes no more than this.
  int look_ahead() const { return 12 * order_.num_ranks(); }

  Action start(Rank& rank, int index, double now) {
    const Action action = rank.remaining[index];
    rank.remaining.erase(rank.remaining.begin() + index);
    rank.held += change_of_held(action.kind);
    if (action.kind == ActionKind::forward) --rank.forwards_left;
    rank.free_at = now + costs_.of_computation(action);
    end_[index_of(action.kind, action.stage, action.micro_batch)] = rank.free_at;
    times_.push(rank.free_at);
    if (const auto send = send_after(order_, action)) times_.push(rank.free_at + seconds_of(*send));
    return action;
  }

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

  // When the input of a computation is here; kNever while that is not known.
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
  const Rule rule_;
  std::vector<Rank> ranks_;
  std::vector<double> end_;  // [forward, backward_input, backward_weight][stage][micro-batch]
  std::priority_queue<double, std::vector<double>, std::greater<>> times_;
};

// Shorter is better; of as short ones, that in which ranks wait less between their first
// computation and their last one.
std::pair<double, double> length_of(const Schedule& order, const Costs& costs, int buffers) {
  const Simulation simulation = simulate(with_communication(order, buffers), costs);
  double bubbles = 0;
  for (const SimulatedRank& rank : simulation.ranks) bubbles += rank.bubble();
  return {simulation.makespan, bubbles};
}

}  // namespace

Schedule list_schedule(const Schedule& order, const Costs& costs, int in_flight, int buffers) {
  Schedule best = order;
  auto shortest = length_of(order, costs, buffers);
  for (const Rule rule : {Rule::first_ready, Rule::drain, Rule::weights_last}) {
    Schedule schedule = ListScheduler(order, costs, in_flight, rule).run();
    const auto length = length_of(schedule, costs, buffers);
    if (length >= shortest) continue;
    shortest = length;
    best = std::move(schedule);
  }
  return best;
}

}  // namespace colossal::parallel::pipeline
