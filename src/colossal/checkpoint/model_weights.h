// The weights of a model: those of its folder, and of its adapter's.
#pragma once

#include <functional>

#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Into `chunks`, which are the model's: all that folders have, of its folder also what is read
// apart. asked: called whenever a parameter is looked for. Throws as read_weights() does.
void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const ReadApart& apart = {}, const std::function<void()>& asked = {});

}  // namespace colossal::checkpoint
