// Writes and reads pipeline schedules as text. Users may write such files by hand
// (parallel.pp_schedule). The format:
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
// are numbered from 0. The kinds are:
//   F       forward
//   B       backward, input gradient and weight gradient in one
//   I, W    input gradient, weight gradient
//   SF, RF  send the stage's output, receive the stage's input (activations)
//   SB, RB  send the gradient of the stage's input, receive the gradient of its output
// So SF0.1 on one rank belongs to RF1.1 on the rank of stage 1.
//
// "&" after an action means that it may run at the same time as the next computation
// (Action::overlaps_next). Lines of ranks come after micro_batches and rank_of_stage; the name may
// be missing. "buffers" limits how many messages from a stage to its neighbour may be under way at
// once (Schedule::buffers). Several lines of a rank are joined in their order. If the text has no
// SF, RF, SB or RB at all, the parser adds the sends and receives (communication.h).
#pragma once

#include <string>
#include <string_view>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns a text that parse_schedule() reads as an equal schedule. Exception: a schedule without
// sends and receives is read with those that the parser adds. schedule.name must not be empty, and
// must not contain "#".
std::string schedule_text(const Schedule& schedule);

// Returns the schedule that `text` describes. Does not check whether the schedule is valid; see
// validator.h. Throws ConfigError with line, column and the reason if the text does not have the
// format. source: path of the text, for this message.
Schedule parse_schedule(std::string_view text, std::string_view source);

}  // namespace colossal::parallel::pipeline
