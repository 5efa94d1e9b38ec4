// Converts dtypes between LibTorch and safetensors files, and gives access to a tensor's bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "colossal/io/safetensors.h"
#include "colossal/io/scalar_type.h"

namespace colossal::checkpoint {

// Returns the dtype in files for a LibTorch dtype. Throws InternalError unless `type` is fp64,
// fp32, bf16 or fp16.
io::ScalarType file_type(at::ScalarType type);
// Returns the LibTorch dtype for a tensor in a file. Throws ConfigError unless its dtype is F64,
// F32, BF16 or F16. file: path for the message.
at::ScalarType tensor_type(const io::TensorEntry& entry, const std::filesystem::path& file);

// Return the memory of a tensor on the CPU. Throw InternalError unless the tensor is contiguous.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);
std::span<std::byte> writable_bytes_of(const at::Tensor& tensor);

}  // namespace colossal::checkpoint
