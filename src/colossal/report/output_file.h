// A file that is written without a buffer: when write() returns, the system has the bytes, and a
// process that is killed afterwards loses none of them.
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
    exclusive,  // an existing file is an error
    append,     // goes on after what an existing file holds
  };

  // Throws IoError, naming the path and the system's reason, as all members do.
  explicit OutputFile(std::filesystem::path path, Mode mode = Mode::truncate);

  // Writes all bytes or, on a full disk, none: a part that was written is cut off again, so that a
  // later write goes on where the last whole one ended.
  void write(std::string_view bytes);
  void cut_to(int64_t size);  // cuts off what lies beyond
  void sync();                // to the device
  void close();  // throws what the file system reports only now, which the destructor cannot

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }  // of the file

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  int64_t size_ = 0;
};

}  // namespace colossal::report
