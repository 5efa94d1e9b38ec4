// The whole weights and biases of modules that an adapter's file (adapter_model.safetensors) has
// beside the adapters: those of modules_to_save, and the tables of embedding and head that peft
// saves because tokens were added, or because embedding and head share them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "colossal/io/safetensors.h"

namespace colossal::adapters {

// Returns whether the tensor of an adapter's file is the weight or the bias of a module.
bool is_whole_weight(const io::TensorEntry& entry);

// Returns the modules with whole weights in the adapter folder `folder`, with the size of dim 0 of
// each, by their names in the model's files ("lm_head"). Throws IoError if the file is invalid.
std::map<std::string, int64_t> list_whole_weights(const std::filesystem::path& folder);

}  // namespace colossal::adapters
