// Reads small tensors of files completely, such as the scales of quantized tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/io/tensor_directory.h"

namespace colossal::checkpoint {

using FileTensor = io::TensorDirectory::Tensor;

// Reads `count` bytes of a tensor, from its byte `offset` on. Throws IoError.
std::vector<std::byte> read_bytes(const FileTensor& tensor, int64_t offset, int64_t count);

// Reads a tensor of dtype F64, F32, BF16 or F16 as fp32. Throws ConfigError for another dtype, and
// IoError if a value is not finite or cannot be read.
std::vector<float> read_floats(const FileTensor& tensor);

// Throw ConfigError if the tensor, which belongs to a quantized weight, does not have this dtype
// and this shape.
void require_tensor(const FileTensor& tensor, io::ScalarType type,
                    const std::vector<int64_t>& shape);
void require_shape(const FileTensor& tensor, const std::vector<int64_t>& shape);

}  // namespace colossal::checkpoint
