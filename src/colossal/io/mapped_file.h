// A memory-mapped read-only file; pages are read on first access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace colossal::io {

// The file must not be truncated while it is mapped (an access beyond its end raises SIGBUS):
// replace mapped files by rename, never rewrite them in place.
class MappedFile {
 public:
  // expected_bytes: the file's size when the caller last looked at it. Throws IoError if the file
  // cannot be mapped, or if its size differs from this: it was truncated or replaced.
  explicit MappedFile(const std::filesystem::path& path,
                      std::optional<int64_t> expected_bytes = std::nullopt);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }  // valid as long as this object

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace colossal::io
