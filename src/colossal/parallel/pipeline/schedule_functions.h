// The orders of computation behind schedules.h, a function each, with their sources. All of them
// take any number of ranks and of micro-batches.
#pragma once

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::parallel::pipeline {

// All micro-batches forward, then all backward (Huang et al. 2019).
Schedule gpipe(const PipelineShape& shape, const Costs& costs);

// One forward, one backward (Narayanan et al. 2019, 2021): as many forwards first as there are
// ranks behind.
Schedule one_forward_one_backward(const PipelineShape& shape, const Costs& costs);

// The same over several chunks a rank (Narayanan et al. 2021), which start in groups of num_ranks
// micro-batches; the last group may be smaller.
Schedule interleaved(const PipelineShape& shape, const Costs& costs);

// Zero-bubble schedules (Qi et al. 2023): weight gradients fill the time in which a rank would
// wait. H1 keeps to the memory of 1F1B; H2 has twice as many micro-batches in flight.
Schedule zero_bubble_h1(const PipelineShape& shape, const Costs& costs);
Schedule zero_bubble_h2(const PipelineShape& shape, const Costs& costs);

// Two chunks a rank, down the ranks and up again (Qi et al. 2024, "Pipeline Parallelism with
// Controllable Memory"): about the activations of 1F1B, half and a third of them.
Schedule zero_bubble_v(const PipelineShape& shape, const Costs& costs);
Schedule v_half(const PipelineShape& shape, const Costs& costs);
Schedule v_min(const PipelineShape& shape, const Costs& costs);

// DeepSeek's DualPipe cut in half, so that a rank holds its parameters once: forwards and backwards
// of two micro-batches are paired.
Schedule dual_pipe_v(const PipelineShape& shape, const Costs& costs);

// For the functions above: a schedule without actions, and one without the micro-batches from
// `num_micro_batches` on. What is left of a right schedule is right: micro-batches do not need each
// other. So an order that is written for more micro-batches serves for fewer.
Schedule empty_schedule(const PipelineShape& shape, std::vector<int> rank_of_stage);
Schedule first_micro_batches(Schedule schedule, int num_micro_batches);

}  // namespace colossal::parallel::pipeline
