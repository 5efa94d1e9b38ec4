// Files for the tests of this folder, good and bad.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/io/safetensors.h"

namespace colossal::io::test {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void write_text(const std::filesystem::path& path, std::string_view contents);

// The header as given, its true length before it, `data_bytes` bytes of data after it.
std::string raw_safetensors(std::string_view header, size_t data_bytes);

// Values that differ from tensor to tensor and from byte to byte.
std::string tensor_contents(const TensorEntry& entry);
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const SafetensorsMetadata& metadata = {});

// The message of the IoError or ConfigError that `call` throws; "nothing was thrown" otherwise.
template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace colossal::io::test
