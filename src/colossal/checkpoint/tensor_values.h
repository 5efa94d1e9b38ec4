// Whole small tensors of files: the scales of others, and their like.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {

using FileTensor = io::TensorDirectory::Tensor;

std::vector<std::byte> read_bytes(const FileTensor& tensor, int64_t offset, int64_t count);

// Numbers of F32, BF16 or F16. Throws ConfigError for another type, and IoError for one that is not
// finite.
std::vector<float> read_floats(const FileTensor& tensor);

// Throws ConfigError where the tensor, which stands beside weights, has another type or shape.
void require_tensor(const FileTensor& tensor, io::ScalarType type,
                    const std::vector<int64_t>& shape);
void require_shape(const FileTensor& tensor, const std::vector<int64_t>& shape);

}  // namespace colossal::checkpoint
