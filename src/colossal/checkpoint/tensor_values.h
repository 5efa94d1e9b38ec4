// Reads tensors of files into vectors, and checks their shapes; for the scales and zero points of
// quantized tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {

using FileTensor = io::TensorDirectory::Tensor;

// Returns `count` bytes of a tensor, from its byte `offset` on. Throws IoError.
std::vector<std::byte> read_bytes(const FileTensor& tensor, int64_t offset, int64_t count);

// Returns all values of a tensor of dtype F64, F32, BF16 or F16, in row-major order. Throws
// ConfigError for another dtype, and IoError if a value is not finite or cannot be read.
std::vector<float> read_floats(const FileTensor& tensor);

// Throws ConfigError if a tensor of a quantized weight has another dtype than `type` or another
// shape than `shape`.
void require_tensor(const FileTensor& tensor, io::ScalarType type,
                    const std::vector<int64_t>& shape);
// Throws ConfigError if a tensor of a quantized weight has another shape than `shape`.
void require_shape(const FileTensor& tensor, const std::vector<int64_t>& shape);

}  // namespace colossal::checkpoint
