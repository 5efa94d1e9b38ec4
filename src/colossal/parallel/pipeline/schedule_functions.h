// One function per built-in schedule (schedules.h): each returns the order of computations on each
// rank, without messages, for any number of ranks and micro-batches.
#pragma once

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::parallel::pipeline {

// All micro-batches forward, then all backward (Huang et al. 2019).
Schedule gpipe(const PipelineShape& shape, const Costs& costs);

// One forward, one backward (1F1B; Narayanan et al. 2019, 2021): each rank first runs as many
// forwards as there are ranks behind it, then one forward and one backward in turn.
Schedule one_forward_one_backward(const PipelineShape& shape, const Costs& costs);

// 1F1B with several chunks per rank (Narayanan et al. 2021). Each rank runs a chunk for a group of
// num_ranks micro-batches, then its next chunk for the same group; the last group may be smaller.
Schedule interleaved(const PipelineShape& shape, const Costs& costs);

// Zero-bubble schedules (Qi et al. 2023): weight gradients fill the time in which a rank would
// wait. H1 has at most as many micro-batches in flight as 1F1B: num_ranks. H2 has up to 2 *
// num_ranks - 1. If `costs` differ between stages, or messages take time, both orders are adapted
// (list_scheduler.h).
Schedule zero_bubble_h1(const PipelineShape& shape, const Costs& costs);
Schedule zero_bubble_h2(const PipelineShape& shape, const Costs& costs);

// Two chunks per rank, placed down the ranks and up again (Qi et al. 2024, "Pipeline Parallelism
// with Controllable Memory"). Activations in flight: about those of 1F1B, half of them, and a third
// of them. All three adapt to `costs` (list_scheduler.h).
Schedule zero_bubble_v(const PipelineShape& shape, const Costs& costs);
Schedule v_half(const PipelineShape& shape, const Costs& costs);
Schedule v_min(const PipelineShape& shape, const Costs& costs);

// DualPipeV (DeepSeek's DualPipe cut in half, so that no parameters are held twice): the forward of
// one micro-batch and the backward of another run as a pair.
Schedule dual_pipe_v(const PipelineShape& shape, const Costs& costs);

// Helpers of the functions above. empty_schedule(): a schedule without actions.
// first_micro_batches(): `schedule` without the micro-batches from number `num_micro_batches` on.
// The rest of a valid schedule is valid, because micro-batches do not depend on each other; so an
// order for more micro-batches can be cut down to fewer.
Schedule empty_schedule(const PipelineShape& shape, std::vector<int> rank_of_stage);
Schedule first_micro_batches(Schedule schedule, int num_micro_batches);

}  // namespace colossal::parallel::pipeline
