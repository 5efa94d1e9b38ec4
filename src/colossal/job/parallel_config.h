// Declares the keys of the section [parallel] of a configuration file (sizes and modes of dp, pp,
// sp, tp, ep), and resolves their values to a Strategy. Used by training (run_config.h, job.h),
// and by commands that only run a model: evaluation, generation and serving.
#pragma once

#include "colossal/base/config_schema.h"
#include "colossal/job/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/model_facts.h"

namespace colossal {

// Returns the strategy for a job of `ranks` ranks, without the fields that depend on the model:
// resolve_heads() below and resolve_pipeline() in pipeline_config.h set those. If config.dp is
// unset, dp is what the other sizes leave of `ranks`; if config.zero is unset, zero is 1 if dp * sp
// is above 1, else 0. Throws LayoutError if the sizes do not fit each other or `ranks`.
Strategy resolve_parallel(const ParallelConfig& config, int ranks);

// Checks that the model has enough query heads, and sets strategy.key_value_replicas. Query heads
// are divided among n = strategy.head_ranks() ranks: in 1d those of tp; in 2d and 2.5d those along
// tp.column; in 3d those along tp.l. With Ulysses, the heads of each of these n ranks are then
// divided among the ranks of sp; with ring attention, all ranks of sp have the same heads. A query
// head is never divided. Throws LayoutError if a rank would have no query head. There may be fewer
// K/V heads than n; several of the n ranks then hold the same K/V heads.
void resolve_heads(const models::ModelFacts& facts, Strategy& strategy);

// Checks strategy.ep, expert_tp and expert_copies. Throws LayoutError if ep or expert_tp is above 1
// and the model has no experts, if it has fewer experts than ep, if its experts have fewer inner
// features than expert_tp, or if expert_copies is above 0 but ep is 1.
void require_experts(const Strategy& strategy, const models::ModelFacts& facts);

// The following functions add keys of [parallel] to `schema`, with their help. Values are written
// to `parallel`, which must outlive `schema`. The keys of expert copies are for training only; all
// others mean the same in training and for a model that is not trained.

// Adds sp and sp_mode.
void describe_sequence_ranks(ConfigSchema& schema, ParallelConfig& parallel);
// Adds tp, tp_mode, tp_depth and tp_sequence.
void describe_tensor_ranks(ConfigSchema& schema, ParallelConfig& parallel);
// Adds ep and expert_tp.
void describe_expert_ranks(ConfigSchema& schema, ParallelConfig& parallel);
// Adds expert_copies and expert_copy_rows.
void describe_expert_copies(ConfigSchema& schema, ParallelConfig& parallel);
// Adds zero_group.
void describe_zero_group(ConfigSchema& schema, ParallelConfig& parallel);
// Adds pp_layers.
void describe_pipeline_layers(ConfigSchema& schema, ParallelConfig& parallel);
// Adds backend and device.
void describe_world(ConfigSchema& schema, ParallelConfig& parallel);
// Adds timeout.
void describe_timeout(ConfigSchema& schema, ParallelConfig& parallel);

// Adds the keys for generation and serving, where all ranks together hold the model once: tp,
// tp_mode, tp_depth, ep, expert_tp, pp, pp_layers, backend, device, timeout. Values are written to
// `parallel`, which must outlive `schema`.
void describe_model_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// Returns the strategy of the keys of describe_model_ranks(). Throws ConfigError if `ranks` is not
// pp x tp, or if the sizes do not fit the model.
Strategy resolve_model_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                             int ranks);

// Adds the keys for an evaluation: all keys of [parallel] except pp_schedule, pp_chunks,
// accumulate, expert_copies and expert_copy_rows. Values are written to `parallel`, which must
// outlive `schema`.
void describe_evaluation_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// Returns the strategy of the keys of describe_evaluation_ranks(), for sequences of
// `sequence_length` tokens. If zero is unset, it is 0. Throws ConfigError if zero is 1 or 2, or if
// the sizes do not fit each other, `ranks`, the model or the sequence length.
Strategy resolve_evaluation_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                                  int64_t sequence_length, int ranks);

}  // namespace colossal
