#include "colossal/checkpoint/tensor_bytes.h"

#include "colossal/base/error.h"

namespace colossal::checkpoint {

io::ScalarType file_type(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return io::ScalarType::f64;
    case at::kFloat:
      return io::ScalarType::f32;
    case at::kBFloat16:
      return io::ScalarType::bf16;
    case at::kHalf:
      return io::ScalarType::f16;
    default:
      COLOSSAL_CHECK(false, "no file type for {}", at::toString(type));
  }
}

at::ScalarType tensor_type(const io::TensorEntry& entry, const std::filesystem::path& file) {
  switch (entry.type) {
    case io::ScalarType::f64:
      return at::kDouble;
    case io::ScalarType::f32:
      return at::kFloat;
    case io::ScalarType::bf16:
      return at::kBFloat16;
    case io::ScalarType::f16:
      return at::kHalf;
    default:
      throw ConfigError(
          fmt::format("{}: tensor \"{}\" has the type {}; only weights of the types F64, F32, BF16 "
                      "and F16 are supported",
                      file.string(), entry.name, io::scalar_type_name(entry.type)));
  }
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  COLOSSAL_CHECK(tensor.is_contiguous(), "strides {}", fmt::join(tensor.strides(), " "));
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::span<std::byte> writable_bytes_of(const at::Tensor& tensor) {
  COLOSSAL_CHECK(tensor.is_contiguous(), "strides {}", fmt::join(tensor.strides(), " "));
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace colossal::checkpoint
