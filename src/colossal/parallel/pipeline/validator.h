// Checks before anything runs that a schedule is valid: complete, in an order that can be carried
// out, and free of deadlock with its number of buffers.
#pragma once

#include <optional>
#include <string>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct Conflict {
  int rank = 0;
  int position = 0;     // index of the action on the rank
  std::string message;  // a sentence that names rank, position, action and what it lacks
};

// Returns the first conflict, or nullopt if the schedule is valid:
//
// - every stage is on an existing rank, and every rank has a stage;
// - each micro-batch passes each stage once forward and once backward (whole or split), on the
//   stage's rank;
// - each computation comes after the actions of its rank that it needs: the forward of the same
//   stage, the neighbouring stage if it is on the same rank, the receive of its message;
// - each message has one send and one receive, in the same order on each channel;
// - on each channel, at most `buffers` posted receives have messages that are not used yet;
// - the two computations of a pair that may run at the same time do not need each other;
// - every rank comes to its end (see execute()), also if pairs run at the same time.
std::optional<Conflict> first_conflict(const Schedule& schedule);

// Throws ConfigError with the message of the first conflict.
void check_schedule(const Schedule& schedule);

}  // namespace colossal::parallel::pipeline
