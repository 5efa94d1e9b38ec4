// Divides a model's blocks among the stages of a pipeline, by their costs or as the user asks.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace colossal::parallel::pipeline {

// Returns the number of blocks of each stage, in model order. Every stage has at least one block.
// The cost of a stage is the sum of the costs of its blocks; the first stage also has the embedding
// and the last stage the head.
//
// Minimizes the largest cost of a stage. Among the cuts that reach this minimum, minimizes the sum
// of the stages' squared costs, so that costs are even. Among equal cuts, prefers fewer blocks in
// the first stages, which hold more micro-batches.
//
// block_costs: one per block, in model order. All costs have one unit, and none is negative. Throws
// ConfigError if there are fewer blocks than stages. Takes time in O(num_stages * blocks^2).
std::vector<int> cut_stages(std::span<const double> block_costs, double embedding_cost,
                            double head_cost, int num_stages);

// Checks the number of blocks of each stage that a user gave in parallel.pp_layers. Throws
// ConfigError if there are fewer blocks than stages, if there is not one number per stage, if a
// number is below 1, or if the sum is not num_blocks.
void check_stage_cut(std::span<const int> blocks_of_stage, int num_blocks, int num_stages);

}  // namespace colossal::parallel::pipeline
