// Checks, before a run, that a pipeline schedule is valid: it is complete, its order can be carried
// out, and it has no deadlock with its number of buffers. Schedules from files are checked.
#pragma once

#include <optional>
#include <string>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// A rule that a schedule breaks.
struct Conflict {
  int rank = 0;
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
// - Each computation comes after the actions of its rank that it needs: a backward pass after
//   the forward pass of its stage; each after the computation of the neighbouring stage if that is
//   on this rank, else after the receive of its message.
// - Each message has one send and one receive. Each channel has its sends and its receives in the
//   same order.
// - On each channel, at most Schedule::buffers posted receives have messages that are not used yet.
// - A pair is two computations, of which only the first has Action::overlaps_next. They do not
//   need each other's results.
// - No rank waits forever when execute() carries out the schedule, both if the two computations of
//   a pair run at the same time and if they run one after the other.
std::optional<Conflict> first_conflict(const Schedule& schedule);

// Throws ConfigError with Conflict::message if the schedule is not valid.
void check_schedule(const Schedule& schedule);

}  // namespace colossal::parallel::pipeline
