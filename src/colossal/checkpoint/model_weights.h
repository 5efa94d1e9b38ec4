// Reads the weights of a model from its folder, and those of its adapter from the adapter's folder,
// before training or inference starts.
#pragma once

#include <functional>

#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Reads the weights of the model, and of its adapter if the adapter has a folder, into `chunks`. If
// the adapter is new and has no folder, only the adapter's copies of weights of the model get
// values, those of the model. The adapter's other parameters are not set. Parameters that the model
// newly initializes (ModelSpecification::newly_initialized) are not set either.
//
// apart: parameters that are read but not stored in `chunks`. on_lookup: called whenever a
// parameter's place in the model's files is looked up, for progress. changed: applied to the
// model's weights. Throws ConfigError if tensors and parameters do not match, and IoError if a
// value is not finite or a file is invalid; see read_weights() (weights.h).
void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const UnchunkedParameters& apart = {}, const std::function<void()>& on_lookup = {},
                const ChangedWeights& changed = {});

// Reads the weights of an adapter from its folder into `chunks`. adapted: the model with the
// adapter. parameters: those of the adapter. Throws ConfigError if the folder has a copy of one of
// the model's weights that differs from the weight, for example because the vocabulary was
// enlarged. Otherwise throws as read_model() does.
void read_adapter(const models::ModelSpecification& adapted, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
