// Converts between LibTorch tensors and bytes in files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "colossal/io/safetensors.h"
#include "colossal/io/scalar_type.h"

namespace colossal::checkpoint {

// Returns the dtype in files of a LibTorch dtype: fp64, fp32, bf16 or fp16.
io::ScalarType file_type(at::ScalarType type);
// Returns the LibTorch dtype of a tensor in a file: fp64, fp32, bf16 or fp16. Throws ConfigError,
// naming tensor and dtype, for any other dtype.
at::ScalarType tensor_type(const io::TensorEntry& entry, const std::filesystem::path& file);

// Return the memory of a contiguous CPU tensor.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);
std::span<std::byte> writable_bytes_of(const at::Tensor& tensor);

}  // namespace colossal::checkpoint
