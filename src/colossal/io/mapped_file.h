// A file as read-only memory, its pages read on first touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace colossal::io {

// The file must not be cut while it is mapped (the kernel answers a touch beyond the end with
// SIGBUS): files that are mapped are replaced by rename, never rewritten in place.
class MappedFile {
 public:
  // Throws IoError. With `expected_bytes`, also when the file has another size: it was cut, or is
  // another one than its index says.
  explicit MappedFile(const std::filesystem::path& path,
                      std::optional<int64_t> expected_bytes = std::nullopt);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace colossal::io
