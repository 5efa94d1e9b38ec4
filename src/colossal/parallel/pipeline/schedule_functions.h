// One function per built-in pipeline schedule; the table in schedules.cpp refers to them. Each
// returns the computations of each rank in order, without messages, for any number of ranks and
// micro-batches. A function ignores `costs` unless its comment mentions them. Callers use
// make_schedule() (schedules.h) instead, which also checks that the schedule supports shape.chunks.
//
// A chunk, below, is one of the stages of a rank; unless a comment says otherwise, a rank has one.
// In a v_placement() (schedule.h) a rank has two: the stages run along the ranks and then back, so
// that rank 0 has the first and the last stage.
#pragma once

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::parallel::pipeline {

// Runs the forwards of all micro-batches, then all backwards (Y. Huang et al. 2019, "GPipe").
Schedule gpipe(const PipelineShape& shape, const Costs& costs);

// One forward, one backward, "1F1B" (D. Narayanan et al. 2019, "PipeDream"; 2021, "Megatron-LM").
// Rank r first runs num_ranks - 1 - r forwards (or all, if there are fewer), then alternates
// forwards and backwards until all forwards have run, then runs the remaining backwards.
Schedule one_forward_one_backward(const PipelineShape& shape, const Costs& costs);

// Interleaved 1F1B, with several chunks per rank (D. Narayanan et al. 2021). Alternates forwards
// and backwards like 1F1B, after more forwards at the start. Each rank runs the forwards of a chunk
// for a group of num_ranks micro-batches, then those of its next chunk for the same group, and so
// on, before the next group; the backwards in the same way, from the last chunk to the first. The
// last group may be smaller.
Schedule interleaved(const PipelineShape& shape, const Costs& costs);

// The zero-bubble schedules ZB-H1 and ZB-H2 (P. Qi et al. 2023, "Zero Bubble Pipeline
// Parallelism"): backward passes are split, and weight gradients run in the time in which a rank
// would otherwise wait. A rank holds at most num_ranks micro-batches in H1, as in 1F1B, and at most
// 2 * num_ranks - 1 in H2. If `costs` differ between stages, or if messages take time, the order is
// adapted to `costs` (list_scheduler.h).
Schedule zero_bubble_h1(const PipelineShape& shape, const Costs& costs);
Schedule zero_bubble_h2(const PipelineShape& shape, const Costs& costs);

// The V schedules (P. Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"): two chunks
// per rank in a v_placement(), with split backward passes. Compared with 1F1B, zero_bubble_v()
// holds about as many activations, v_half() half and v_min() a third of them. The order is adapted
// to `costs` (list_scheduler.h).
Schedule zero_bubble_v(const PipelineShape& shape, const Costs& costs);
Schedule v_half(const PipelineShape& shape, const Costs& costs);
Schedule v_min(const PipelineShape& shape, const Costs& costs);

// DualPipeV: half of DeepSeek's DualPipe. Unlike DualPipe, it holds no parameters twice. Two chunks
// per rank in a v_placement(). The forward of one micro-batch and the backward of another run as a
// pair (Action::overlaps_next).
Schedule dual_pipe_v(const PipelineShape& shape, const Costs& costs);

// Helper of the functions above: returns a schedule without actions. rank_of_stage: [stages], the
// rank that computes each stage.
Schedule empty_schedule(const PipelineShape& shape, std::vector<int> rank_of_stage);
// Helper of the functions above: removes all actions of micro-batches with index num_micro_batches
// or above. If `schedule` is valid, the result is valid, too, because micro-batches do not depend
// on each other.
Schedule first_micro_batches(Schedule schedule, int num_micro_batches);

}  // namespace colossal::parallel::pipeline
