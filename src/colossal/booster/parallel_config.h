// Declares the keys of [parallel], the sizes and modes of the axes, and resolves them to a
// Strategy.
#pragma once

#include "colossal/base/config_schema.h"
#include "colossal/booster/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/language_model.h"

namespace colossal {

// Returns the strategy for `ranks` ranks. Throws LayoutError.
Strategy resolve_parallel(const ParallelConfig& config, int ranks);

// Checks that the model has enough attention heads for the ranks that share them, and sets
// strategy.key_value_replicas. A head is never divided, so each of these ranks needs at least one.
// Heads are shared by the ranks of tp (in 2d, 2.5d and 3d: by the columns of ranks), and, with
// Ulysses, also by the ranks of sp. With ring attention, each rank of sp has all heads of its rank
// of tp. Throws LayoutError if there are too few heads.
void resolve_heads(const models::ModelFacts& facts, Strategy& strategy);

// Throws LayoutError if the ranks of ep x expert_tp would not all have an expert or a part of one,
// or if expert copies are requested without ep.
void require_experts(const Strategy& strategy, const models::ModelFacts& facts);

// Each adds the keys named beside it, or the key of its own name, with their help. These keys mean
// the same for a training run and for a model that is not trained.
void describe_sequence_ranks(ConfigSchema& schema, ParallelConfig& parallel);  // sp, sp_mode
// tp, tp_mode, tp_depth, tp_sequence
void describe_tensor_ranks(ConfigSchema& schema, ParallelConfig& parallel);
void describe_expert_ranks(ConfigSchema& schema, ParallelConfig& parallel);  // ep, expert_tp
// expert_copies, expert_copy_rows
void describe_expert_copies(ConfigSchema& schema, ParallelConfig& parallel);
void describe_zero_group(ConfigSchema& schema, ParallelConfig& parallel);
void describe_pipeline_layers(ConfigSchema& schema, ParallelConfig& parallel);  // pp_layers
void describe_backend(ConfigSchema& schema, ParallelConfig& parallel);
void describe_timeout(ConfigSchema& schema, ParallelConfig& parallel);

// Adds the keys for a model that is not trained and is held once, by all ranks together: tp, ep,
// expert_tp and pp with their modes, backend and timeout.
void describe_model_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// Returns the strategy of the keys of describe_model_ranks(). Throws ConfigError if they cannot
// work; the message names what would work.
Strategy resolve_model_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                             int ranks);

// Adds the keys for an evaluation: all keys except those of pipeline schedules, gradients and
// expert copies.
void describe_evaluation_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// Returns the strategy of the keys of describe_evaluation_ranks(), for sequences of
// `sequence_length` tokens. Throws ConfigError if they cannot work; the message names what would
// work.
Strategy resolve_evaluation_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                                  int64_t sequence_length, int ranks);

}  // namespace colossal
