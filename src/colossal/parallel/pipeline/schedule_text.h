// The text format of a schedule, which can also be written by hand:
//
//   # Two ranks, two micro-batches; comments go to the end of their line.
//   name: mine
//   micro_batches: 2
//   buffers: 2                # optional; default: 2
//   rank_of_stage: 0 1        # in model order
//   rank 0: F0.0 F0.1 B0.0 B0.1
//   rank 1: F1.0 B1.0 F1.1 B1.1
//
// An action is written as its kind, its stage, a dot and its micro-batch; stages and micro-batches
// count from 0. Kinds: F is forward and B the whole backward; I and W are backward split into input
// gradient and weight gradient. SF and RF send and receive activations, SB and RB gradients. "&"
// after an action: it may run at the same time as the next computation. Several lines of the same
// rank are joined in their order. If the text has no SF, RF, SB or RB at all, the parser adds the
// messages (communication.h).
#pragma once

#include <string>
#include <string_view>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns a text that parse_schedule() reads as an equal schedule.
std::string schedule_text(const Schedule& schedule);

// Throws ConfigError with `source` (a path), line, column, what was found and what would work. Does
// not check whether the schedule is valid; validator.h does.
Schedule parse_schedule(std::string_view text, std::string_view source);

}  // namespace colossal::parallel::pipeline
