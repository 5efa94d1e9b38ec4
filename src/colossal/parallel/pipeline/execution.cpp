#include "colossal/parallel/pipeline/execution.h"

#include <algorithm>
#include <optional>

namespace colossal::parallel::pipeline {
namespace {

struct Channel {
  std::vector<double> sent;   // time of each send
  std::vector<double> asked;  // time at which each message was asked for
  std::vector<double> arrived;
  std::vector<int> number_of;  // [micro-batch] -> index in `asked`; -1: not asked for yet
  double seconds = 0;

  // Messages of a channel travel one at a time.
  void update() {
    while (arrived.size() < std::min(sent.size(), asked.size())) {
      const size_t next = arrived.size();
      const double free = next == 0 ? 0 : arrived[next - 1];
      arrived.push_back(std::max({sent[next], asked[next], free}) + seconds);
    }
  }

  std::optional<double> arrival_of(int micro_batch) const {
    const int number = number_of[micro_batch];
    if (number < 0 || number >= static_cast<int>(arrived.size())) return std::nullopt;
    return arrived[number];
  }
};

// Returns the positions of a rank's actions in the order of execution if pairs overlap. Receives
// between the two computations of a pair come before both, sends after both.
std::vector<int> paired_sequence(const std::vector<Action>& actions) {
  std::vector<int> sequence;
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    const int partner = actions[i].overlaps_next ? overlap_partner(actions, i) : -1;
    if (partner < 0) {
      sequence.push_back(i);
      continue;
    }
    for (int j = i + 1; j < partner; ++j) {
      if (is_receive(actions[j].kind)) sequence.push_back(j);
    }
    sequence.insert(sequence.end(), {i, partner});
    for (int j = i + 1; j < partner; ++j) {
      if (is_send(actions[j].kind)) sequence.push_back(j);
    }
    i = partner;
  }
  return sequence;
}

std::vector<int> given_sequence(const std::vector<Action>& actions) {
  std::vector<int> sequence(actions.size());
  for (size_t i = 0; i < sequence.size(); ++i) sequence[i] = static_cast<int>(i);
  return sequence;
}

class Executor {
 public:
  Executor(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), costs_(costs), channels_(num_channels(schedule)) {
    const int boundaries = schedule.num_stages() - 1;
    for (size_t c = 0; c < channels_.size(); ++c) {
      channels_[c].seconds = costs.of_boundary(static_cast<int>(c) % boundaries);
      channels_[c].number_of.assign(schedule.num_micro_batches, -1);
    }
    for (const std::vector<Action>& actions : schedule.actions) {
      result_.spans.emplace_back(actions.size());
      result_.reached.emplace_back(actions.size(), false);
      result_.busy.push_back(0);
      ranks_.push_back(
          {costs.overlapped_share ? paired_sequence(actions) : given_sequence(actions)});
    }
  }

  Execution run() {
    bool advanced = true;
    while (advanced) {
      advanced = false;
      for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
        while (step(rank)) advanced = true;
      }
    }
    for (const Rank& rank : ranks_) {
      const bool done = rank.next == rank.sequence.size();
      result_.stopped_at.push_back(static_cast<int>(done ? rank.next : rank.sequence[rank.next]));
    }
    return std::move(result_);
  }

 private:
  struct Rank {
    std::vector<int> sequence;
    size_t next = 0;
    double clock = 0;
  };

  // Carries out the next action of a rank. Returns false if the action must wait, or if there is
  // none.
  bool step(int index) {
    Rank& rank = ranks_[index];
    if (rank.next == rank.sequence.size()) return false;
    const int place = rank.sequence[rank.next];
    const Action& action = schedule_.actions[index][place];
    if (is_computation(action.kind)) return compute(index, place);
    Channel& channel = channels_[channel_of(schedule_, action)];
    const double start = rank.clock;
    if (is_send(action.kind)) {
      // At most `buffers` sends may be ahead of the receives.
      const size_t number = channel.sent.size(), buffers = schedule_.buffers;
      if (number >= channel.asked.size() + buffers) return false;
      if (number >= buffers) rank.clock = std::max(rank.clock, channel.asked[number - buffers]);
      channel.sent.push_back(rank.clock);
    } else {
      channel.number_of[action.micro_batch] = static_cast<int>(channel.asked.size());
      channel.asked.push_back(rank.clock);
    }
    channel.update();
    record(index, place, {start, rank.clock});
    return true;
  }

  bool compute(int index, int place) {
    Rank& rank = ranks_[index];
    const std::vector<Action>& actions = schedule_.actions[index];
    const int partner = actions[place].overlaps_next && costs_.overlapped_share
                            ? overlap_partner(actions, place)
                            : -1;
    auto start = input_of(actions[place]);
    double seconds = costs_.of_computation(actions[place]);
    if (partner >= 0) {
      const auto other = input_of(actions[partner]);
      start = start && other ? std::optional(std::max(*start, *other)) : std::nullopt;
      seconds += costs_.of_computation(actions[partner]);
      seconds *= *costs_.overlapped_share;
    }
    if (!start) return false;
    const double begin = std::max(*start, rank.clock);
    rank.clock = begin + seconds;
    result_.busy[index] += seconds;
    record(index, place, {begin, rank.clock});
    if (partner >= 0) record(index, partner, {begin, rank.clock});
    return true;
  }

  void record(int rank, int place, Span span) {
    result_.spans[rank][place] = span;
    result_.reached[rank][place] = true;
    ++ranks_[rank].next;
  }

  // Returns when the input of a computation has arrived: 0 if it comes from this rank, nothing if
  // it has not arrived.
  std::optional<double> input_of(const Action& computation) const {
    const auto receive = receive_before(schedule_, computation);
    if (!receive) return 0;
    return channels_[channel_of(schedule_, *receive)].arrival_of(computation.micro_batch);
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::vector<Channel> channels_;
  std::vector<Rank> ranks_;
  Execution result_;
};

}  // namespace

bool Execution::complete() const {
  for (size_t rank = 0; rank < spans.size(); ++rank) {
    if (stopped_at[rank] < static_cast<int>(spans[rank].size())) return false;
  }
  return true;
}

Execution execute(const Schedule& schedule, const Costs& costs) {
  return Executor(schedule, costs).run();
}

int overlap_partner(const std::vector<Action>& actions, int position) {
  for (size_t i = position + 1; i < actions.size(); ++i) {
    if (is_computation(actions[i].kind)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace colossal::parallel::pipeline
