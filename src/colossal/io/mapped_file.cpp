#include "colossal/io/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/io/file.h"

namespace colossal::io {

MappedFile::MappedFile(const std::filesystem::path& path, std::optional<int64_t> expected_bytes)
    : path_(path) {
  const File file = File::open_for_reading(path);
  const int64_t size = file.size();
  if (expected_bytes && size != *expected_bytes) {
    throw IoError(fmt::format("{}: is {} bytes long, {} were expected", path.string(), size,
                              *expected_bytes));
  }
  if (size == 0) return;  // mmap() refuses an empty range
  const auto length = static_cast<size_t>(size);
  void* memory = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) raise_io_error(path, fmt::format("map {} bytes", size), errno);
  bytes_ = {static_cast<const std::byte*>(memory), length};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace colossal::io
