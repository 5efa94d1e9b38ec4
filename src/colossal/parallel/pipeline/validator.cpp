#include "colossal/parallel/pipeline/validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/execution.h"

namespace colossal::parallel::pipeline {
namespace {

struct Place {
  int rank = 0;
  int position = 0;
};

std::string place_name(const Place& place) {
  return fmt::format("rank {}, position {}", place.rank, place.position);
}

class Validator {
 public:
  explicit Validator(const Schedule& schedule) : schedule_(schedule) {}

  std::optional<Conflict> run() {
    // Later checks rely on earlier ones.
    for (const auto check :
         {&Validator::check_sizes, &Validator::check_each_action, &Validator::check_nothing_missing,
          &Validator::check_needs, &Validator::check_channels, &Validator::check_receive_buffers,
          &Validator::check_pairs, &Validator::check_deadlock}) {
      if (auto conflict = (this->*check)()) return conflict;
    }
    return std::nullopt;
  }

 private:
  using Key = std::tuple<ActionKind, int, int>;

  static Key key_of(const Action& action) {
    return {action.kind, action.stage, action.micro_batch};
  }

  const Action& at(const Place& place) const {
    return schedule_.actions[place.rank][place.position];
  }

  // Returns a conflict at an action: "rank 0, position 3: F0.1 " and the reason.
  Conflict conflict_at(const Place& place, const std::string& reason) const {
    return {place.rank, place.position,
            fmt::format("{}: {} {}", place_name(place), action_name(at(place)), reason)};
  }

  // Returns all places, rank by rank.
  std::vector<Place> all_places() const {
    std::vector<Place> places;
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      for (size_t i = 0; i < schedule_.actions[rank].size(); ++i) {
        places.push_back({rank, static_cast<int>(i)});
      }
    }
    return places;
  }

  std::optional<Place> place_of(const Action& action) const {
    const auto found = places_.find(key_of(action));
    if (found == places_.end()) return std::nullopt;
    return found->second;
  }

  // Returns the computation of the gradient of a stage's input: a whole or a split backward.
  std::optional<Place> place_of_gradient(int stage, int micro_batch) const {
    const auto whole = place_of({ActionKind::backward, stage, micro_batch});
    return whole ? whole : place_of({ActionKind::backward_input, stage, micro_batch});
  }

  std::optional<Conflict> check_sizes() {
    const auto wrong = [](std::string message) { return Conflict{0, 0, std::move(message)}; };
    if (schedule_.num_ranks() < 1) return wrong("there is no rank");
    if (schedule_.num_micro_batches < 1) return wrong("there is no micro-batch");
    if (schedule_.buffers < 1) return wrong("there is no buffer for messages");
    std::set<int> ranks;
    for (int stage = 0; stage < schedule_.num_stages(); ++stage) {
      const int rank = schedule_.rank_of_stage[stage];
      ranks.insert(rank);
      if (rank >= 0 && rank < schedule_.num_ranks()) continue;
      return wrong(fmt::format("stage {} is on rank {}, but there are only the ranks 0 to {}",
                               stage, rank, schedule_.num_ranks() - 1));
    }
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      if (!ranks.contains(rank))
        return Conflict{rank, 0, fmt::format("rank {} has no stage", rank)};
    }
    return std::nullopt;
  }

  std::optional<Conflict> check_each_action() {
    for (const Place& place : all_places()) {
      const Action& action = at(place);
      if (action.stage < 0 || action.stage >= schedule_.num_stages()) {
        return conflict_at(place, fmt::format("is of a stage that does not exist; there are {}",
                                              schedule_.num_stages()));
      }
      if (action.micro_batch < 0 || action.micro_batch >= schedule_.num_micro_batches) {
        return conflict_at(place,
                           fmt::format("is of a micro-batch that does not exist; there are {}",
                                       schedule_.num_micro_batches));
      }
      const int home = schedule_.rank_of_stage[action.stage];
      if (home != place.rank) {
        return conflict_at(place,
                           fmt::format("is of stage {}, which is on rank {}", action.stage, home));
      }
      if (!is_computation(action.kind) && !carries_something(action)) {
        return conflict_at(place, "is a message between stages that are not on two ranks");
      }
      const auto [found, is_new] = places_.emplace(key_of(action), place);
      if (!is_new) {
        return conflict_at(
            place, fmt::format("occurs twice, first at position {}", found->second.position));
      }
    }
    return std::nullopt;
  }

  // Returns whether a message goes from one rank to another: whether the sender's computation has a
  // send.
  bool carries_something(const Action& message) const {
    const Action send = is_send(message.kind) ? message : send_of(message);
    if (send.stage < 0 || send.stage >= schedule_.num_stages()) return false;
    const ActionKind sender =
        is_forward(send.kind) ? ActionKind::forward : ActionKind::backward_input;
    return send_after(schedule_, {sender, send.stage, send.micro_batch}).has_value();
  }

  Conflict missing(const Action& action, const std::string& for_what) const {
    const int rank = schedule_.rank_of_stage[action.stage];
    const int end = static_cast<int>(schedule_.actions[rank].size());
    return {rank, end,
            fmt::format("rank {}, after its {} actions: {} is missing{}", rank, end,
                        action_name(action), for_what)};
  }

  std::optional<Conflict> check_nothing_missing() {
    // Checks all computations first: a missing computation also makes messages missing, and should
    // be reported itself.
    for (const auto check : {&Validator::check_passes, &Validator::check_messages}) {
      for (int stage = 0; stage < schedule_.num_stages(); ++stage) {
        for (int i = 0; i < schedule_.num_micro_batches; ++i) {
          if (auto conflict = (this->*check)(stage, i)) return conflict;
        }
      }
    }
    return std::nullopt;
  }

  // Checks that a micro-batch passes a stage once in each direction.
  std::optional<Conflict> check_passes(int stage, int micro_batch) const {
    const Action forward{ActionKind::forward, stage, micro_batch};
    const Action whole{ActionKind::backward, stage, micro_batch};
    const Action input{ActionKind::backward_input, stage, micro_batch};
    const Action weight{ActionKind::backward_weight, stage, micro_batch};
    if (!place_of(forward)) return missing(forward, "");
    if (const auto place = place_of(whole)) {
      for (const Action& part : {input, weight}) {
        const auto twice = place_of(part);
        if (!twice) continue;
        return conflict_at(*twice, fmt::format("is part of {}, which is at position {}",
                                               action_name(whole), place->position));
      }
      return std::nullopt;
    }
    if (!place_of(input)) {
      return missing(input, fmt::format(", and so is {}", action_name(whole)));
    }
    return place_of(weight) ? std::nullopt : std::optional(missing(weight, ""));
  }

  // Checks that messages of the stage's two computations have a send and a receive.
  std::optional<Conflict> check_messages(int stage, int micro_batch) const {
    for (const Place& place : {*place_of({ActionKind::forward, stage, micro_batch}),
                               *place_of_gradient(stage, micro_batch)}) {
      for (const auto& message :
           {receive_before(schedule_, at(place)), send_after(schedule_, at(place))}) {
        if (!message || place_of(*message)) continue;
        const Action other = is_send(message->kind) ? receive_of(*message) : send_of(*message);
        return missing(*message,
                       fmt::format(" for {} and for {} of rank {}", action_name(at(place)),
                                   action_name(other), schedule_.rank_of_stage[other.stage]));
      }
    }
    return std::nullopt;
  }

  // Returns which actions of its own rank an action needs; earlier checks ensure that they exist.
  std::vector<Place> needs_of(const Action& action) const {
    const int stage = action.stage, micro_batch = action.micro_batch;
    std::vector<Place> needs;
    const auto need = [&](const std::optional<Place>& place) {
      if (place) needs.push_back(*place);
    };
    const bool backward = computes_input_gradient(action.kind);
    if (is_computation(action.kind)) {
      if (const auto receive = receive_before(schedule_, action)) {
        need(place_of(*receive));
      } else if (action.kind == ActionKind::forward) {
        need(place_of({ActionKind::forward, stage - 1, micro_batch}));
      } else if (backward) {
        need(place_of_gradient(stage + 1, micro_batch));
      }
    }
    if (backward || action.kind == ActionKind::send_forward) {
      need(place_of({ActionKind::forward, stage, micro_batch}));
    }
    if (action.kind == ActionKind::backward_weight || action.kind == ActionKind::send_backward) {
      need(place_of_gradient(stage, micro_batch));
    }
    return needs;
  }

  std::optional<Conflict> check_needs() {
    for (const Place& place : all_places()) {
      for (const Place& need : needs_of(at(place))) {
        if (need.position < place.position) continue;
        return conflict_at(place, fmt::format("waits for {}, which only comes at position {}",
                                              action_name(at(need)), need.position));
      }
    }
    return std::nullopt;
  }

  std::optional<Conflict> check_channels() {
    sends_.resize(num_channels(schedule_));
    receives_.resize(num_channels(schedule_));
    for (const Place& place : all_places()) {
      const Action& action = at(place);
      if (is_computation(action.kind)) continue;
      const int channel = channel_of(schedule_, action);
      (is_send(action.kind) ? sends_ : receives_)[channel].push_back(place);
    }
    for (size_t channel = 0; channel < sends_.size(); ++channel) {
      // Both lists have the same length: each message has a send and a receive, checked above.
      for (size_t i = 0; i < sends_[channel].size(); ++i) {
        const Place& send = sends_[channel][i];
        const Place& receive = receives_[channel][i];
        if (send_of(at(receive)) == at(send)) continue;
        return conflict_at(
            receive, fmt::format("would take {} of {}: messages of a channel are received in the "
                                 "order in which they are sent",
                                 action_name(at(send)), place_name(send)));
      }
    }
    return std::nullopt;
  }

  std::optional<Conflict> check_receive_buffers() {
    std::vector<int> waiting(num_channels(schedule_), 0);
    for (const Place& place : all_places()) {
      const Action& action = at(place);
      if (is_receive(action.kind) && ++waiting[channel_of(schedule_, action)] > schedule_.buffers) {
        return conflict_at(place, fmt::format("waits for a buffer: {} earlier messages of its "
                                              "channel have not been used, and there {}",
                                              schedule_.buffers, buffers_text()));
      }
      if (!is_computation(action.kind)) continue;
      if (const auto receive = receive_before(schedule_, action)) {
        --waiting[channel_of(schedule_, *receive)];
      }
    }
    return std::nullopt;
  }

  std::string buffers_text() const {
    return schedule_.buffers == 1 ? "is 1 buffer"
                                  : fmt::format("are {} buffers", schedule_.buffers);
  }

  std::optional<Conflict> check_pairs() {
    for (const Place& place : all_places()) {
      const Action& action = at(place);
      if (!action.overlaps_next) continue;
      paired_ = true;
      const int partner = overlap_partner(schedule_.actions[place.rank], place.position);
      if (!is_computation(action.kind) || partner < 0) {
        return conflict_at(place, "has no computation after it that it could run together with");
      }
      const Place other{place.rank, partner};
      const std::vector<Place> needs = needs_of(at(other));
      if (at(other).overlaps_next || std::ranges::any_of(needs, [&](const Place& need) {
            return need.position >= place.position && is_computation(at(need).kind);
          })) {
        return conflict_at(place, fmt::format("cannot run together with {} at position {}",
                                              action_name(at(other)), partner));
      }
    }
    return std::nullopt;
  }

  std::optional<Conflict> check_deadlock() {
    if (auto conflict = deadlock_of(execute(schedule_, {}), false)) return conflict;
    if (!paired_) return std::nullopt;
    return deadlock_of(execute(schedule_, {.overlapped_share = 1}), true);
  }

  std::optional<Conflict> deadlock_of(const Execution& execution, bool paired) const {
    if (execution.complete()) return std::nullopt;
    const std::vector<int> circle = circle_of(execution, paired);
    std::vector<std::string> waits;
    for (const int rank : circle) {
      const Wait wait = wait_of(execution, rank, paired);
      waits.push_back(fmt::format("{}: {} waits for {} ({})", place_name(wait.place),
                                  action_name(at(wait.place)), action_name(at(wait.awaited)),
                                  place_name(wait.awaited)));
    }
    return Conflict{circle.front(), execution.stopped_at[circle.front()],
                    fmt::format("{}; there {} a channel{}", fmt::join(waits, "; "), buffers_text(),
                                paired ? ", and pairs run together" : "")};
  }

  struct Wait {
    Place place;
    Place awaited;
  };

  // Returns what a rank that cannot continue waits for.
  Wait wait_of(const Execution& execution, int rank, bool paired) const {
    const Place place{rank, execution.stopped_at[rank]};
    const Action& action = at(place);
    if (is_send(action.kind)) {
      // It waits for the receive that frees a buffer for it.
      const int channel = channel_of(schedule_, action);
      const auto number = std::ranges::find(sends_[channel], place.position, &Place::position) -
                          sends_[channel].begin();
      return {place, receives_[channel][number - schedule_.buffers]};
    }
    const Wait own{place, awaited_by(action).value_or(place)};
    const bool waits_itself =
        own.awaited.rank != rank && !execution.reached[own.awaited.rank][own.awaited.position];
    if (waits_itself || !paired) return own;
    const Place partner{rank, overlap_partner(schedule_.actions[rank], place.position)};
    return {partner, awaited_by(at(partner)).value_or(partner)};
  }

  std::optional<Place> awaited_by(const Action& computation) const {
    const auto receive = receive_before(schedule_, computation);
    return receive ? place_of(send_of(*receive)) : std::nullopt;
  }

  // Returns a circle of ranks, each of which waits for the next; the lowest rank comes first.
  std::vector<int> circle_of(const Execution& execution, bool paired) const {
    int rank = 0;
    while (execution.stopped_at[rank] == static_cast<int>(schedule_.actions[rank].size())) ++rank;
    std::vector<int> path;
    while (std::ranges::find(path, rank) == path.end()) {
      path.push_back(rank);
      rank = wait_of(execution, rank, paired).awaited.rank;
    }
    path.erase(path.begin(), std::ranges::find(path, rank));
    std::ranges::rotate(path, std::ranges::min_element(path));
    return path;
  }

  const Schedule& schedule_;
  std::map<Key, Place> places_;
  std::vector<std::vector<Place>> sends_, receives_;  // of each channel, in order
  bool paired_ = false;
};

}  // namespace

std::optional<Conflict> first_conflict(const Schedule& schedule) {
  return Validator(schedule).run();
}

void check_schedule(const Schedule& schedule) {
  const auto conflict = first_conflict(schedule);
  if (!conflict) return;
  throw ConfigError(
      fmt::format("the pipeline schedule \"{}\" cannot run: {}", schedule.name, conflict->message));
}

}  // namespace colossal::parallel::pipeline
