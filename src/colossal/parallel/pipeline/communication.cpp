#include "colossal/parallel/pipeline/communication.h"

#include <algorithm>
#include <map>

namespace colossal::parallel::pipeline {
namespace {

// Maps each channel to its receives, in the order in which the messages are sent.
using Arrivals = std::map<int, std::vector<Action>>;

Arrivals arrivals_of(const Schedule& schedule) {
  Arrivals arrivals;
  for (const std::vector<Action>& actions : schedule.actions) {
    for (const Action& action : actions) {
      if (const auto send = send_after(schedule, action)) {
        arrivals[channel_of(schedule, *send)].push_back(receive_of(*send));
      }
    }
  }
  return arrivals;
}

// The receives of one rank; the caller goes through the rank's computations in order.
class Receives {
 public:
  Receives(const Schedule& schedule, const Arrivals& arrivals, int rank) : schedule_(schedule) {
    // In the order of first use: ask_ahead() asks for messages of several channels in this order.
    for (const Action& action : schedule.actions[rank]) {
      const auto receive = receive_before(schedule, action);
      if (!receive) continue;
      const int channel = channel_of(schedule, *receive);
      const auto found = arrivals.find(channel);
      if (find(channel) || found == arrivals.end()) continue;
      inboxes_.push_back({channel, &found->second});
    }
  }

  // Appends the receives for which buffers are free.
  void ask_ahead(std::vector<Action>& actions) {
    for (Inbox& inbox : inboxes_) {
      while (inbox.asked < inbox.arrivals->size() && inbox.asked - inbox.used < buffers()) {
        actions.push_back((*inbox.arrivals)[inbox.asked++]);
      }
    }
  }

  // Appends all receives of the channel up to `receive` that were not appended before.
  void ask_for(const Action& receive, std::vector<Action>& actions) {
    Inbox* inbox = find(channel_of(schedule_, receive));
    if (!inbox) return;
    const auto begin = inbox->arrivals->begin();
    const auto place = std::find(begin, inbox->arrivals->end(), receive);
    if (place == inbox->arrivals->end()) return;
    while (inbox->asked <= static_cast<size_t>(place - begin)) {
      actions.push_back((*inbox->arrivals)[inbox->asked++]);
    }
    ++inbox->used;
  }

 private:
  struct Inbox {
    int channel;
    const std::vector<Action>* arrivals;
    size_t asked = 0;
    size_t used = 0;
  };

  size_t buffers() const { return static_cast<size_t>(schedule_.buffers); }

  Inbox* find(int channel) {
    const auto found = std::ranges::find(inboxes_, channel, &Inbox::channel);
    return found == inboxes_.end() ? nullptr : &*found;
  }

  const Schedule& schedule_;
  std::vector<Inbox> inboxes_;
};

std::vector<Action> with_messages(const Schedule& schedule, const Arrivals& arrivals, int rank) {
  Receives receives(schedule, arrivals, rank);
  std::vector<Action> actions;
  receives.ask_ahead(actions);
  for (const Action& computation : schedule.actions[rank]) {
    const auto receive = receive_before(schedule, computation);
    if (receive) receives.ask_for(*receive, actions);
    actions.push_back(computation);
    receives.ask_ahead(actions);
    if (const auto send = send_after(schedule, computation)) actions.push_back(*send);
  }
  return actions;
}

}  // namespace

Schedule with_communication(Schedule computations, int buffers) {
  computations.buffers = buffers;
  Schedule schedule = computations;
  const Arrivals arrivals = arrivals_of(computations);
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    schedule.actions[rank] = with_messages(computations, arrivals, rank);
  }
  return schedule;
}

}  // namespace colossal::parallel::pipeline
