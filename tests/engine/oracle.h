// Oracles in Python: how they are run, and how what they write is read.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "colossal/io/safetensors.h"
#include "colossal/layout/tensor_slice.h"

namespace colossal::test {

// Runs `script` of this folder with `directory` and these arguments. Throws IoError where it fails,
// after it has said why on stderr.
void run_oracle(const std::string& script, const std::filesystem::path& directory,
                const std::string& arguments);

// A tensor that the file holds in this type.
at::Tensor read_tensor(const io::SafetensorsReader& file, const std::string& name,
                       at::ScalarType type);

// A parameter, from the tensor that holds it under its name after `prefix`.
at::Tensor read_parameter(const io::SafetensorsReader& file, const std::string& prefix,
                          const TensorSlice& slice, at::ScalarType type);

}  // namespace colossal::test
