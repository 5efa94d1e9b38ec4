// Proves that a schedule is right before anything runs: complete, in an order that can be carried
// out, and free of deadlock with the buffers that it states.
#pragma once

#include <optional>
#include <string>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct Conflict {
  int rank = 0;
  int position = 0;     // of the action among those of the rank, from 0
  std::string message;  // a sentence that names rank, position, action and what it lacks
};

// The first conflict; nothing where the schedule is right, that is where
//
// - every stage lies at a rank, and every rank has one;
// - each micro-batch passes each stage once forward and once backward, whole or split, at the
//   stage's rank, each after what it needs: its forward, the neighbouring stage, its message;
// - each message has one send and one receive, in the same order on each channel;
// - no more messages are asked for ahead than there are buffers;
// - pairs that may run at the same time do not need each other;
// - all ranks come to their end, with `buffers` messages under way on each channel.
std::optional<Conflict> first_conflict(const Schedule& schedule);

// Throws ConfigError with the first conflict.
void check_schedule(const Schedule& schedule);

}  // namespace colossal::parallel::pipeline
