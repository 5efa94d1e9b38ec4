// Converts between LibTorch's tensors and bytes in files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "colossal/io/safetensors.h"
#include "colossal/io/scalar_type.h"

namespace colossal::checkpoint {

io::ScalarType file_type(at::ScalarType type);
// Returns the type of a tensor in a file. Throws ConfigError, naming tensor and type, for types
// that no weight of a model has (fp8, complex ...).
at::ScalarType tensor_type(const io::TensorEntry& entry, const std::filesystem::path& file);

// The memory of a contiguous CPU tensor.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);
std::span<std::byte> writable_bytes_of(const at::Tensor& tensor);

}  // namespace colossal::checkpoint
