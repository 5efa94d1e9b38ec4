// An unbuffered output file: when write() returns, the operating system has the bytes, so they
// survive if the process is killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "colossal/base/file_descriptor.h"

namespace colossal::report {

class OutputFile {
 public:
  enum class Mode {
    truncate,   // replaces an existing file
    exclusive,  // throws if the file exists
    append,     // appends to an existing file
  };

  // Throws IoError with the path and the system's reason, as all members do.
  explicit OutputFile(std::filesystem::path path, Mode mode = Mode::truncate);

  // Writes all bytes. If that fails (e.g. the disk is full), truncates the file to its size before
  // the call, so that later writes follow the last complete one, and throws.
  void write(std::string_view bytes);
  void truncate_to(int64_t size);  // truncates the file to `size` bytes
  void sync();                     // fsync
  void close();  // throws errors that only closing reports; the destructor ignores them

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }  // file size in bytes

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  int64_t size_ = 0;
};

}  // namespace colossal::report
