// Which blocks of a model each stage of a pipeline has.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace colossal::parallel::pipeline {

// How many blocks each stage has, in model order, so that the largest cost of a stage is as small
// as it can be; of the cuts that reach it, the one with the most even costs, and of those one that
// has fewer blocks in front, where more micro-batches are in flight. Every stage has at least one
// block. The first stage has the embedding too, the last one the head (a single one both).
//
// block_costs: of each block in model order, at least as many as stages (else ConfigError); all
// costs in one unit, none negative. Exact, in time num_stages * blocks^2.
std::vector<int> cut_stages(std::span<const double> block_costs, double embedding_cost,
                            double head_cost, int num_stages);

// Refuses, by ConfigError, a list of a user (parallel.pp_layers) that has not one entry for each
// stage, has a stage without blocks, or does not sum to the blocks of the model.
void check_stage_cut(std::span<const int> blocks_of_stage, int num_blocks, int num_stages);

}  // namespace colossal::parallel::pipeline
