// A file that is mapped into memory for reading. The kernel reads each page at its first access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace colossal::io {

// The file must not be truncated while it is mapped, because an access beyond its end raises
// SIGBUS. To replace it, rename a new file to its path; do not rewrite it in place.
class MappedFile {
 public:
  // Maps the file at `path`. expected_bytes: the size that the caller found before; nullopt: any
  // size. Throws IoError if the file cannot be mapped, or if its size is not `expected_bytes`
  // because it was truncated or replaced.
  explicit MappedFile(const std::filesystem::path& path,
                      std::optional<int64_t> expected_bytes = std::nullopt);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  // Returns the contents of the file, valid as long as this object. Empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace colossal::io
