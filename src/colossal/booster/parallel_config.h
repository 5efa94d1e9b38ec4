// Declares the keys of the section [parallel] of a configuration file (sizes and modes of dp, pp,
// sp, tp, ep), and resolves their values to a Strategy. Used by training (run_config.h, job.h),
// and by commands that only run a model: evaluation, generation and serving.
#pragma once

#include "colossal/base/config_schema.h"
#include "colossal/booster/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/language_model.h"

namespace colossal {

// Returns the strategy for a job of `ranks` ranks, without the fields that depend on the model:
// resolve_heads() and resolve_pipeline() set those. Throws LayoutError if the sizes do not fit each
// other or `ranks`.
Strategy resolve_parallel(const ParallelConfig& config, int ranks);

// Checks that the model has enough attention heads, and sets strategy.key_value_replicas. Heads are
// divided among the ranks of tp; in 2d, 2.5d and 3d, among the columns of the grid of these ranks.
// With Ulysses, the heads of a rank of tp are then divided among the ranks of sp; with ring
// attention, each rank of sp has all heads of its rank of tp. A head is never divided, so each rank
// or column needs at least one head. Throws LayoutError if there are too few heads.
void resolve_heads(const models::ModelFacts& facts, Strategy& strategy);

// Checks strategy.ep, expert_tp and expert_copies. Throws LayoutError if a rank of ep x expert_tp
// would have neither an expert nor a part of an expert, or if there are expert copies but ep is 1.
void require_experts(const Strategy& strategy, const models::ModelFacts& facts);

// The following functions add keys of [parallel] to `schema`, with their help. Values are written
// to `parallel`, which must outlive `schema`. These keys mean the same in training and for a model
// that is not trained.

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
// Adds backend.
void describe_backend(ConfigSchema& schema, ParallelConfig& parallel);
// Adds timeout.
void describe_timeout(ConfigSchema& schema, ParallelConfig& parallel);

// Adds the keys for generation and serving, where all ranks together hold the model once: tp,
// tp_mode, tp_depth, ep, expert_tp, pp, pp_layers, backend, timeout. Values are written to
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
