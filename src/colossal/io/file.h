// Files by descriptor. Every function throws IoError naming the path, what was tried (bytes and
// offset included) and the system's reason; interrupted and short calls are continued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "colossal/base/file_descriptor.h"

namespace colossal::io {

// Whether a symbolic link in a folder may lead out of it (as in the cache of the Hugging Face hub).
enum class OutsideLinks { refuse, follow };

// An open regular file, closed at the end. read_at and write_at of disjoint ranges may run in
// several threads at once.
class File {
 public:
  static File open_for_reading(const std::filesystem::path& path);
  // `name` in `directory`. With OutsideLinks::refuse the kernel itself keeps the lookup inside.
  static File open_inside(const std::filesystem::path& directory, const std::string& name,
                          OutsideLinks links);
  static File open_for_writing(const std::filesystem::path& path);  // an existing file
  static File create(const std::filesystem::path& path);            // must not exist yet
  static File open_or_create(const std::filesystem::path& path);    // for writing, contents kept
  // A new file that no directory lists: it is gone with its descriptor, however the process ends.
  static File create_unnamed(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }
  int64_t size() const;
  // Whether it still has the name by which it was opened; others may have removed or replaced it.
  bool has_its_name() const;

  // All of `destination`, or IoError: a file that ends earlier is an error.
  void read_at(std::span<std::byte> destination, int64_t offset) const;
  void write_at(std::span<const std::byte> source, int64_t offset);

  // Makes the file `bytes` long, with its blocks reserved where the file system can, so that a full
  // disk shows here and not halfway through.
  void reserve(int64_t bytes);
  void sync();

 private:
  File(int descriptor, std::filesystem::path path);
  static File open(const std::filesystem::path& path, int flags, const char* operation);

  FileDescriptor descriptor_;
  std::filesystem::path path_;
};

// The whole file; more than `limit` bytes are refused unread.
std::string read_file(const std::filesystem::path& path, int64_t limit = int64_t{1} << 30);

// A reader of `path` sees what was there before or all of `contents`, also after a crash.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

// Whether anything stands at `path`, a link that leads nowhere included.
bool path_exists(const std::filesystem::path& path);
// Makes a folder and the missing folders above it, and syncs their names to the disk: a power cut
// that takes a folder takes what was saved in it.
void make_folders(const std::filesystem::path& path);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Removes a file, or a folder with all that is in it. Does not follow links.
void remove_tree(const std::filesystem::path& path);

// Makes the names in a directory (created, renamed, removed ones) survive a power cut.
void sync_directory(const std::filesystem::path& path);

// Throws, for calls that this header does not wrap, IoError "PATH: cannot OPERATION: reason of
// `error`".
[[noreturn]] void raise_io_error(const std::filesystem::path& path, std::string_view operation,
                                 int error);

}  // namespace colossal::io
