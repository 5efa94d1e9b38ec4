// Reads the weights of a model from its folder, and from its adapter's folder.
#pragma once

#include <functional>

#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Reads the weights of the model's folder, and of its adapter's folder, into `chunks`, and those of
// `apart` as UnchunkedParameters describes. Parameters of a new adapter that train a copy of a
// weight begin with the model's values; its other parameters are not read. changed: applied to the
// model's weights. asked: called whenever a parameter of the model is looked up, for progress.
// Throws as read_weights() does.
void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const UnchunkedParameters& apart = {}, const std::function<void()>& on_lookup = {},
                const ChangedWeights& changed = {});

// Reads the weights of an adapter, `parameters`, from its folder into `chunks`. adapted: the model
// with the adapter. Throws ConfigError if the folder has a copy of one of the model's weights that
// differs from the weight, for example because the vocabulary was enlarged. Also throws as
// read_weights() does.
void read_adapter(const models::ModelSpecification& adapted, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
