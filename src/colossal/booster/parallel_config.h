// The settings of the mesh: which ranks do what.
#pragma once

#include "colossal/base/config_schema.h"
#include "colossal/booster/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/language_model.h"

namespace colossal {

// The sizes of the mesh, on so many ranks. Throws LayoutError.
Strategy resolve_parallel(const ParallelConfig& config, int ranks);

// How heads are shared out. They are the smallest parts of attention: every rank that shares them
// has one at least. Those of a side of tp do, and those of Ulysses; the ranks of a ring each have
// all. Throws LayoutError where there are fewer.
void resolve_heads(const models::ModelFacts& facts, Strategy& strategy);

// Every rank that shares experts has one at least, or a part of one. Throws LayoutError.
void require_experts(const Strategy& strategy, const models::ModelFacts& facts);

// Keys that a training run and a model which is not trained have alike.
void describe_sequence_ranks(ConfigSchema& schema, ParallelConfig& parallel);
void describe_tensor_ranks(ConfigSchema& schema, ParallelConfig& parallel);
void describe_expert_ranks(ConfigSchema& schema, ParallelConfig& parallel);
void describe_expert_copies(ConfigSchema& schema, ParallelConfig& parallel);
void describe_zero_group(ConfigSchema& schema, ParallelConfig& parallel);
void describe_pipeline_layers(ConfigSchema& schema, ParallelConfig& parallel);
void describe_backend(ConfigSchema& schema, ParallelConfig& parallel);
void describe_timeout(ConfigSchema& schema, ParallelConfig& parallel);

// Only the keys that say how ranks hold a model that is not trained: over tp and pp.
void describe_model_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// The strategy of those keys. Throws ConfigError for what cannot be, naming what can.
Strategy resolve_model_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                             int ranks);

// Only the keys that say how ranks evaluate a model: all but those of schedules and of gradients.
void describe_evaluation_ranks(ConfigSchema& schema, ParallelConfig& parallel);

// The strategy of those keys, for rows of so many tokens. Throws ConfigError for what cannot be,
// naming what can.
Strategy resolve_evaluation_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                                  int64_t sequence_length, int ranks);

}  // namespace colossal
