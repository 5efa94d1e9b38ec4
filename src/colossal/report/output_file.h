// An unbuffered output file, for logs and events: when write() returns, the operating system has
// the bytes, so they are not lost if the process is killed afterwards.
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
    append,     // appends to an existing file, or creates the file
  };

  // Opens the file for writing, and creates it if it does not exist. This and all other members
  // throw IoError, with the path and the system's reason, if they fail.
  explicit OutputFile(std::filesystem::path path, Mode mode = Mode::truncate);

  // Appends all bytes. If this fails (e.g. because the disk is full), truncates the file to its
  // size before the call, so that it does not end with a part of the bytes, and throws.
  void write(std::string_view bytes);
  void truncate_to(int64_t size);  // truncates the file to `size` bytes
  void sync();                     // waits until the bytes are on the disk (fsync)
  // Locks the file until it is closed. Returns false if another process has locked it.
  bool try_lock();
  // Closes the file; does nothing if it is closed. Some errors are reported only by closing; the
  // destructor, which also closes the file, ignores them.
  void close();

  // Whether path() still leads to the open file, which is not so if it was renamed or removed.
  bool is_still_at_path() const;
  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }  // file size in bytes

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  int64_t size_ = 0;
};

}  // namespace colossal::report
