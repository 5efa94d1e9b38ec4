// Checks, before a run, that a pipeline schedule is valid: it is complete, its order can be carried
// out, and it has no deadlock with its number of buffers. Schedules from files are checked.
#pragma once

#include <optional>
#include <string>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// A rule that a schedule breaks.
struct Conflict {
  int rank = 0;  // 0 if the conflict concerns no rank
  // Index of the action among the rank's actions; the number of these actions if an action is
  // missing, and 0 if the conflict concerns no action.
  int position = 0;
  std::string message;  // a sentence that names rank, position, action and reason
};

// Returns the first conflict that it finds, or nullopt if the schedule is valid. In a valid
// schedule:
//
// - There are at least one rank, one micro-batch and one buffer.
// - Every stage is on an existing rank, and every rank has a stage.
// - Each micro-batch passes each stage once forward and once backward (whole or split), on the
//   stage's rank.
// - Each computation comes after the actions of its rank that it needs. A forward pass needs the
//   output of the previous stage. A backward pass needs the forward pass of its stage, and the
//   gradient from the next stage. Both need the neighbouring stage's computation itself if that
//   stage is on the same rank, otherwise the receive of its message. The second half of a split
//   backward pass (backward_weight) needs the first half (backward_input).
// - A send comes after the computation whose result it sends. Messages go only between stages on
//   different ranks; each message has one send and one receive.
// - Each channel, i.e. the messages between two neighbouring stages in one direction, has its sends
//   and its receives in the same order. A channel has Schedule::buffers buffers. In the order of
//   the receiving rank's actions, each receive finds a free buffer, and occupies it until the
//   computation that uses the message.
// - A computation with Action::overlaps_next forms a pair with the rank's next computation, which
//   must exist and must not have overlaps_next. The second does not need the result of the first.
// - No rank waits forever when execute() carries out the schedule, both if the two computations of
//   a pair run at the same time and if they run one after the other.
std::optional<Conflict> first_conflict(const Schedule& schedule);

// Throws ConfigError with Conflict::message if the schedule is not valid.
void check_schedule(const Schedule& schedule);

}  // namespace colossal::parallel::pipeline
