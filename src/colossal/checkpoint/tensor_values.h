// Reads small tensors of files completely, such as the scales of quantized tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {

using FileTensor = io::TensorDirectory::Tensor;

std::vector<std::byte> read_bytes(const FileTensor& tensor, int64_t offset, int64_t count);

// Reads a tensor of dtype F32, BF16 or F16. Throws ConfigError for another dtype, and IoError if a
// value is not finite.
std::vector<float> read_floats(const FileTensor& tensor);

// Throw ConfigError if the tensor, which belongs to a quantized weight, has another dtype or shape.
void require_tensor(const FileTensor& tensor, io::ScalarType type,
                    const std::vector<int64_t>& shape);
void require_shape(const FileTensor& tensor, const std::vector<int64_t>& shape);

}  // namespace colossal::checkpoint
