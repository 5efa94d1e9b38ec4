// Files and folders, with errors that name their cause. Every function throws IoError naming the
// path, the operation (with bytes and offset) and the system's reason. Interrupted and partial
// system calls are resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "colossal/base/file_descriptor.h"

namespace colossal::io {

// Whether a symbolic link in a folder may point outside the folder (as in the cache of the Hugging
// Face Hub).
enum class OutsideLinks { refuse, follow };

// An open regular file; the destructor closes it. Threads may call read_at and write_at
// concurrently on disjoint ranges.
class File {
 public:
  static File open_for_reading(const std::filesystem::path& path);
  // Opens `name` in `directory` for reading. With OutsideLinks::refuse, throws IoError if a link
  // leads out of the directory; the kernel checks this while it opens the file. (On kernels before
  // 5.6, throws for any link.)
  static File open_inside(const std::filesystem::path& directory, const std::string& name,
                          OutsideLinks links);
  static File open_for_writing(const std::filesystem::path& path);  // the file must exist
  static File create(const std::filesystem::path& path);            // the file must not exist
  // Opens the file for writing, or creates it. Keeps existing contents.
  static File open_or_create(const std::filesystem::path& path);
  // Creates a file without a directory entry on the file system of `directory`. The file disappears
  // when it is closed, however the process ends.
  static File create_unnamed(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }
  int64_t size() const;
  // Returns true if path() still refers to this file, false if the file has been removed, renamed
  // or replaced.
  bool is_still_at_path() const;

  // Fills all of `destination`; throws IoError if the file ends earlier.
  void read_at(std::span<std::byte> destination, int64_t offset) const;
  void write_at(std::span<const std::byte> source, int64_t offset);

  // Sets the file size to `bytes`, truncating a larger file. Also reserves the space if the file
  // system supports it, so that a full disk is an error here and not halfway through writing.
  void reserve(int64_t bytes);
  void sync();  // writes the file's data and size to disk (fsync)

 private:
  File(int descriptor, std::filesystem::path path);
  static File open(const std::filesystem::path& path, int flags, const char* operation);

  FileDescriptor descriptor_;
  std::filesystem::path path_;
};

// Reads the whole file. Throws IoError, without reading, if the file is larger than `limit` bytes.
std::string read_file(const std::filesystem::path& path, int64_t limit = int64_t{1} << 30);

// Creates or replaces the file: a reader sees either the old or the complete new contents, even
// after a crash. The new contents are on disk when the function returns.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

// Returns true if there is anything at `path`, even a dangling link.
bool path_exists(const std::filesystem::path& path);
// Creates a folder and its missing parents, and syncs the new directory entries to disk: otherwise
// a power failure could lose the folder with everything in it.
void make_folders(const std::filesystem::path& path);
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Removes a file, or a folder with its contents. Does not follow links.
void remove_tree(const std::filesystem::path& path);

// Syncs the directory's entries to disk: files that were created, renamed or removed in it then
// stay so after a power failure.
void sync_directory(const std::filesystem::path& path);

// For system calls that this header does not wrap: throws IoError "PATH: cannot OPERATION: reason",
// with the reason for the errno value `error`.
[[noreturn]] void raise_io_error(const std::filesystem::path& path, std::string_view operation,
                                 int error);

}  // namespace colossal::io
