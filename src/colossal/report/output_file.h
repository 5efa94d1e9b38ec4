// A file being written through its descriptor, without a buffer of its own: what write() was given
// is the system's when it returns, so a process that is killed afterwards loses none of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

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
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // All of the bytes or, on a full disk, none: a part that got there is taken back, so that a later
  // write goes on where the last whole one ended.
  void write(std::string_view bytes);
  void cut_to(int64_t size);  // drops what lies behind
  void sync();                // to the device
  void close();  // what the file system reports only now is thrown, which the destructor cannot

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }  // of the file

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// The whole file at once: readers see the old contents or the new ones, never a part. Written
// under a temporary name in the same folder, synced, then renamed.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace colossal::report
