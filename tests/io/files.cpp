#include "tests/io/files.h"

#include <cstring>
#include <fstream>

namespace colossal::io::test {

void write_text(const std::filesystem::path& path, std::string_view contents) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(contents.data(), std::ssize(contents));
}

std::string raw_safetensors(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(header).append(data_bytes, '\x2a');
}

std::string tensor_contents(const TensorEntry& entry) {
  std::string bytes(static_cast<size_t>(entry.bytes()), '\0');
  size_t value = std::hash<std::string>()(entry.name);
  for (char& byte : bytes) byte = static_cast<char>(value++ * 2654435761U >> 16);
  if (entry.type == ScalarType::boolean) {
    for (char& byte : bytes) byte &= 1;
  }
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                       const SafetensorsMetadata& metadata) {
  const SafetensorsPlan plan = plan_safetensors(tensors, metadata);
  std::string file = plan.header;
  for (const TensorEntry& entry : plan.entries) file += tensor_contents(entry);
  write_text(path, file);
}

}  // namespace colossal::io::test
