// Reads the weights of a model from its folder, and those of its adapter from the adapter's folder,
// before training or inference starts.
#pragma once

#include <functional>

#include "colossal/checkpoint/weights.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Reads the weights of the model into `chunks` from the folder specification.weights, which must be
// set. Also reads those of its adapter, if the adapter has a folder (ModelAdapter::weights). A new
// adapter has no folder; its low-rank weights or its prefix are not set. Parameters of the model
// that are trained themselves (ModelAdapter::trained) are read from the adapter's folder, or from
// the model's folder if the adapter has no folder. Parameters that the model newly initializes
// (ModelSpecification::newly_initialized) are not set.
//
// apart: parameters that are read and passed to apart.take(), not stored in `chunks`. on_lookup:
// called, unless empty, whenever a parameter's place in the model's files is looked up, for
// progress. changed: which of the model's weights to change before they are stored, and how; by
// default none. Throws ConfigError if tensors and parameters do not match, and IoError if a
// value is not finite or a file is invalid; see read_weights() (weights.h).
void read_model(const models::ModelSpecification& specification, memory::ChunkEngine& chunks,
                const UnchunkedParameters& apart = {}, const std::function<void()>& on_lookup = {},
                const ChangedWeights& changed = {});

// Reads the weights of an adapter from its folder into `chunks`. adapted: the model with the
// adapter, which must have a folder. parameters: those of the adapter. PEFT also saves copies of
// the frozen weights of embeddings and heads that have an adapter. Copies are not read into
// `chunks`. Throws ConfigError if a copy differs from the weight in the model's folder, for example
// because the vocabulary was enlarged. The other errors are those of read_model().
void read_adapter(const models::ModelSpecification& adapted, const nn::ParameterList& parameters,
                  memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
