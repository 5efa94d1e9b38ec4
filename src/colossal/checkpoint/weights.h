// Reads the weights of a Hugging Face folder, slab by slab.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "colossal/io/safetensors.h"
#include "colossal/nn/parameter.h"

namespace colossal::checkpoint {

using NameOf = std::function<std::string(const std::string& parameter)>;
// A run of a parameter's flattened elements, from element `begin`, in the file's type.
using TakeValues =
    std::function<void(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values)>;

// Gives each parameter's elements, from the first to the last that is here, to `take`, at most 64
// MiB at once. Names are tried as given and without their first part
// ("transformer."), as bare models are saved. Throws ConfigError naming a tensor that is missing or
// of another shape.
void read_weights(const std::filesystem::path& folder, const nn::ParameterList& parameters,
                  const NameOf& name_of, const TakeValues& take);

// The same for one tensor of one file, whose shape must be the parameter's.
void read_tensor(const io::SafetensorsReader& file, const io::TensorEntry& entry,
                 const nn::Parameter& parameter, const TakeValues& take);

}  // namespace colossal::checkpoint
