// A schedule as text, to read, to keep and to write by hand:
//
//   # Two ranks, two micro-batches; comments go to the end of their line.
//   name: mine
//   micro_batches: 2
//   buffers: 2                # optional, 2
//   rank_of_stage: 0 1        # in model order
//   rank 0: F0.0 F0.1 B0.0 B0.1
//   rank 1: F1.0 B1.0 F1.1 B1.1
//
// An action is a kind, a stage and a micro-batch, both from 0: F forward, B backward, or I and W
// for its input gradient and weight gradient apart; SF and RF send and receive activations, SB and
// RB gradients. A & after an action: it may run at the same time as the next computation. Several
// lines of one rank follow each other. Without any SF, RF, SB, RB the messages are added
// (communication.h).
#pragma once

#include <string>
#include <string_view>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns a text that parse_schedule reads as the same schedule.
std::string schedule_text(const Schedule& schedule);

// Throws ConfigError with `source` (a path), line, column, what was found and what would work.
// Whether the schedule is right, the validator knows.
Schedule parse_schedule(std::string_view text, std::string_view source);

}  // namespace colossal::parallel::pipeline
