#include "colossal/checkpoint/tensor_values.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/checkpoint/tensor_bytes.h"

namespace colossal::checkpoint {
namespace {

[[noreturn]] void refuse_values(const FileTensor& tensor, const std::string& needed) {
  throw ConfigError(fmt::format("{}: tensor \"{}\" is {} [{}]; the weights beside it need {}",
                                tensor.file->path().string(), tensor.entry->name,
                                io::scalar_type_name(tensor.entry->type),
                                fmt::join(tensor.entry->shape, ", "), needed));
}

}  // namespace

std::vector<std::byte> read_bytes(const FileTensor& tensor, int64_t offset, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  tensor.file->read(*tensor.entry, offset, bytes);
  return bytes;
}

std::vector<float> read_floats(const FileTensor& tensor) {
  const at::Tensor values =
      at::empty(tensor.entry->shape, tensor_type(*tensor.entry, tensor.file->path()));
  tensor.file->read(*tensor.entry, 0, writable_bytes_of(values));
  const at::Tensor floats = values.to(at::kFloat);
  const float* first = floats.const_data_ptr<float>();
  std::vector<float> read(first, first + floats.numel());
  if (!std::ranges::all_of(read, [](float value) { return std::isfinite(value); })) {
    throw IoError(
        fmt::format("{}: tensor \"{}\" holds numbers that are not finite; nothing can be "
                    "computed from them",
                    tensor.file->path().string(), tensor.entry->name));
  }
  return read;
}

void require_tensor(const FileTensor& tensor, io::ScalarType type,
                    const std::vector<int64_t>& shape) {
  if (tensor.entry->type == type && tensor.entry->shape == shape) return;
  refuse_values(tensor, fmt::format("{} [{}]", io::scalar_type_name(type), fmt::join(shape, ", ")));
}

void require_shape(const FileTensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.entry->shape != shape)
    refuse_values(tensor, fmt::format("[{}]", fmt::join(shape, ", ")));
}

}  // namespace colossal::checkpoint
