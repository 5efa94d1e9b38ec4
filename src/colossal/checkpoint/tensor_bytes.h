// Converts between LibTorch tensors and bytes in files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "colossal/io/safetensors.h"
#include "colossal/io/scalar_type.h"

namespace colossal::checkpoint {

io::ScalarType file_type(at::ScalarType type);
// Returns the dtype of a tensor in a file. Throws ConfigError, naming tensor and dtype, for dtypes
// that model weights cannot have (fp8, complex, ...).
at::ScalarType tensor_type(const io::TensorEntry& entry, const std::filesystem::path& file);

// Return the memory of a contiguous CPU tensor.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);
std::span<std::byte> writable_bytes_of(const at::Tensor& tensor);

}  // namespace colossal::checkpoint
