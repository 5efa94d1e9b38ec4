// Divides a model's blocks among the stages of a pipeline.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace colossal::parallel::pipeline {

// Returns how many blocks each stage has, in model order. Minimizes the largest cost of a stage;
// among the cuts that reach this minimum, the sum of the stages' squared costs, so that costs are
// even; on a tie, prefers fewer blocks in the first stages, which have more micro-batches in
// flight. Every stage has at least one block. The first stage also has the embedding, the last also
// the head.
//
// block_costs: one per block, in model order. Throws ConfigError if there are fewer blocks than
// stages. All costs are in one unit, and none is negative. Time: num_stages * blocks^2.
std::vector<int> cut_stages(std::span<const double> block_costs, double embedding_cost,
                            double head_cost, int num_stages);

// Checks a user's list of blocks per stage (parallel.pp_layers). Throws ConfigError if there are
// fewer blocks than stages, the list does not have one entry per stage, an entry is below 1, or the
// sum is not num_blocks.
void check_stage_cut(std::span<const int> blocks_of_stage, int num_blocks, int num_stages);

}  // namespace colossal::parallel::pipeline
