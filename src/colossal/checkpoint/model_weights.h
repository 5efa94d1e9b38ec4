// Reads the weights of a model from its folder, and from its adapter's folder.
#pragma once

#include <functional>

#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Reads all weights of the model's folder, and of its adapter's folder, into `chunks`. `asked` is
// called whenever a parameter is looked up. Throws as read_weights() does.
void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const UnchunkedParameters& apart = {}, const std::function<void()>& asked = {},
                const ChangedWeights& changed = {});

// Reads the weights of an adapter from its folder, for those of `parameters` that are in `chunks`.
// Throws ConfigError if the folder has a copy of a base model's weight that differs from the
// model's, for example because the vocabulary was enlarged.
void read_adapter(const models::ModelSpecification& adapted, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
