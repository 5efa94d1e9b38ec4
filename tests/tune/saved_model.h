// Folders of small models that stand beside the one that is trained: teachers, reward models.
#pragma once

#include <string>

#include "colossal/tune/methods/methods.h"

namespace colossal::tune {

// Trains a model by a method (sft, reward) for two steps, in fp64, and returns its folder, which
// lives as long as the process. It has 4 layers of 3 heads, 18 features, 40 positions and a
// vocabulary of 259 tokens.
std::string saved_model(const TuningMethod& method);

// The folder of an adapter of saved_model(sft()).
std::string saved_adapter();
// The folder of an adapter of saved_model(sft()) that scores texts: it has the head, which
// the model lacks.
std::string saved_scoring_adapter();

}  // namespace colossal::tune
