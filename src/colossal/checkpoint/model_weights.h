// Reads the weights of a model from its folder, and from its adapter's folder.
#pragma once

#include <functional>

#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Reads into `chunks`, which are the model's, all that the folders have. `asked` is called whenever
// a parameter is looked for. Throws as read_weights() does.
void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const ReadApart& apart = {}, const std::function<void()>& asked = {},
                const ChangedWeights& changed = {});

// Reads the weights of an adapter from its folder, of those of its parameters that `chunks` hold.
// Throws ConfigError where the folder holds other weights of the model's own than the model has,
// such as those of a larger vocabulary.
void read_adapter(const models::ModelSpecification& adapted, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
