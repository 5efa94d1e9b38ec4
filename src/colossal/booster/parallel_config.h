// The keys of [parallel]: the sizes and modes of the axes.
#pragma once

#include "colossal/base/config_schema.h"
#include "colossal/booster/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/language_model.h"

namespace colossal {

// Returns the strategy for `ranks` ranks. Throws LayoutError.
Strategy resolve_parallel(const ParallelConfig& config, int ranks);

// Decides how ranks share attention heads, and sets key_value_replicas. A head is never divided, so
// each rank that shares heads has at least one. The ranks of tp (in 2d, 2.5d and 3d: the columns of
// ranks) share heads, and so do the ranks of Ulysses. Each rank of a ring has all heads. Throws
// LayoutError if there are too few heads.
void resolve_heads(const models::ModelFacts& facts, Strategy& strategy);

// Throws LayoutError unless each rank that shares experts has at least one expert or a part of one.
void require_experts(const Strategy& strategy, const models::ModelFacts& facts);

// Keys that a training run shares with a model that is not trained.
void describe_sequence_ranks(ConfigSchema& schema, ParallelConfig& parallel);
void describe_tensor_ranks(ConfigSchema& schema, ParallelConfig& parallel);
void describe_expert_ranks(ConfigSchema& schema, ParallelConfig& parallel);
void describe_expert_copies(ConfigSchema& schema, ParallelConfig& parallel);
void describe_zero_group(ConfigSchema& schema, ParallelConfig& parallel);
void describe_pipeline_layers(ConfigSchema& schema, ParallelConfig& parallel);
void describe_backend(ConfigSchema& schema, ParallelConfig& parallel);
void describe_timeout(ConfigSchema& schema, ParallelConfig& parallel);

// Adds only the keys that place a model that is not trained on ranks, over tp, ep and pp.
void describe_model_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// Returns the strategy of the keys of describe_model_ranks(). Throws ConfigError if they cannot
// work; the message names what would work.
Strategy resolve_model_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                             int ranks);

// Adds only the keys that place a model on ranks for an evaluation: all keys except those of
// schedules and gradients.
void describe_evaluation_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// Returns the strategy of the keys of describe_evaluation_ranks(), for sequences of
// `sequence_length` tokens. Throws ConfigError if they cannot work; the message names what would
// work.
Strategy resolve_evaluation_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                                  int64_t sequence_length, int ranks);

}  // namespace colossal
