#include "colossal/parallel/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace colossal::parallel::pipeline {
namespace {

// Returns whether a message between neighbouring stages, in either direction, goes to another rank.
bool crosses_ranks(const Schedule& schedule, int from, int to) {
  return from >= 0 && to >= 0 && from < schedule.num_stages() && to < schedule.num_stages() &&
         schedule.rank_of_stage[from] != schedule.rank_of_stage[to];
}

const char* words_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward_input:
      return "input gradient";
    case ActionKind::backward_weight:
      return "weight gradient";
    case ActionKind::backward:
      return "backward";
    case ActionKind::send_forward:
      return "send of activations";
    case ActionKind::receive_forward:
      return "receive of activations";
    case ActionKind::send_backward:
      return "send of gradients";
    case ActionKind::receive_backward:
      return "receive of gradients";
  }
  return "?";
}

}  // namespace

std::vector<int> looping_placement(int num_ranks, int chunks) {
  std::vector<int> rank_of_stage;
  for (int stage = 0; stage < num_ranks * chunks; ++stage) {
    rank_of_stage.push_back(stage % num_ranks);
  }
  return rank_of_stage;
}

std::vector<int> v_placement(int num_ranks) {
  std::vector<int> rank_of_stage;
  for (int rank = 0; rank < num_ranks; ++rank) rank_of_stage.push_back(rank);
  for (int rank = num_ranks; rank-- > 0;) rank_of_stage.push_back(rank);
  return rank_of_stage;
}

int chunk_of_stage(const Schedule& schedule, int stage) {
  const auto begin = schedule.rank_of_stage.begin();
  return static_cast<int>(std::count(begin, begin + stage, schedule.rank_of_stage[stage]));
}

bool is_computation(ActionKind kind) {
  return kind <= ActionKind::backward;
}

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}

bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_forward || kind == ActionKind::receive_backward;
}

bool is_forward(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::send_forward ||
         kind == ActionKind::receive_forward;
}

bool computes_input_gradient(ActionKind kind) {
  return kind == ActionKind::backward_input || kind == ActionKind::backward;
}

bool completes_backward(ActionKind kind) {
  return kind == ActionKind::backward_weight || kind == ActionKind::backward;
}

std::string kind_name(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "F";
    case ActionKind::backward_input:
      return "I";
    case ActionKind::backward_weight:
      return "W";
    case ActionKind::backward:
      return "B";
    case ActionKind::send_forward:
      return "SF";
    case ActionKind::receive_forward:
      return "RF";
    case ActionKind::send_backward:
      return "SB";
    case ActionKind::receive_backward:
      return "RB";
  }
  return "?";
}

std::string action_name(const Action& action) {
  return fmt::format("{}{}.{}", kind_name(action.kind), action.stage, action.micro_batch);
}

std::string in_words(const Action& action) {
  return fmt::format("{} of micro-batch {} in stage {}", words_of(action.kind), action.micro_batch,
                     action.stage);
}

std::optional<Action> receive_before(const Schedule& schedule, const Action& computation) {
  const int stage = computation.stage;
  if (computation.kind == ActionKind::forward && crosses_ranks(schedule, stage - 1, stage)) {
    return Action{ActionKind::receive_forward, stage, computation.micro_batch};
  }
  if (computes_input_gradient(computation.kind) && crosses_ranks(schedule, stage + 1, stage)) {
    return Action{ActionKind::receive_backward, stage, computation.micro_batch};
  }
  return std::nullopt;
}

std::optional<Action> send_after(const Schedule& schedule, const Action& computation) {
  const int stage = computation.stage;
  if (computation.kind == ActionKind::forward && crosses_ranks(schedule, stage, stage + 1)) {
    return Action{ActionKind::send_forward, stage, computation.micro_batch};
  }
  if (computes_input_gradient(computation.kind) && crosses_ranks(schedule, stage, stage - 1)) {
    return Action{ActionKind::send_backward, stage, computation.micro_batch};
  }
  return std::nullopt;
}

Action receive_of(const Action& send) {
  return is_forward(send.kind)
             ? Action{ActionKind::receive_forward, send.stage + 1, send.micro_batch}
             : Action{ActionKind::receive_backward, send.stage - 1, send.micro_batch};
}

Action send_of(const Action& receive) {
  return is_forward(receive.kind)
             ? Action{ActionKind::send_forward, receive.stage - 1, receive.micro_batch}
             : Action{ActionKind::send_backward, receive.stage + 1, receive.micro_batch};
}

int num_channels(const Schedule& schedule) {
  return 2 * (schedule.num_stages() - 1);
}

int channel_of(const Schedule& schedule, const Action& message) {
  const Action send = is_send(message.kind) ? message : send_of(message);
  return is_forward(send.kind) ? send.stage : schedule.num_stages() - 1 + send.stage - 1;
}

}  // namespace colossal::parallel::pipeline
