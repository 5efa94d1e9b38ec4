// Opens, reads, writes, syncs and renames files and folders. Unless its comment says otherwise,
// each function throws IoError if the operation fails. The message has the path, the operation and
// the system's reason. Interrupted and partial system calls are resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "colossal/base/file_descriptor.h"

namespace colossal::io {

// Whether symbolic links that lead out of a folder are followed, wherever they lead. Those of the
// Hugging Face Hub's cache need not be: see File::open_inside().
enum class OutsideLinks { refuse, follow };

// An open regular file; the destructor closes it. Threads may read and write disjoint ranges
// concurrently. Opening anything else than a regular file throws IoError.
class File {
 public:
  static File open_for_reading(const std::filesystem::path& path);
  // Opens the file `name` in `directory` for reading. With OutsideLinks::refuse, throws IoError if
  // a link or ".." leads out of the directory, or out of hub_repository_of(directory) if it is in
  // one (hub_cache.h); the kernel checks this while it opens the file. Kernels without openat2()
  // follow no links but those of a snapshot to a file in the folder blobs of its repository.
  static File open_inside(const std::filesystem::path& directory, const std::string& name,
                          OutsideLinks links);
  // The next three functions open the file for reading and writing, and keep existing contents.
  static File open_for_writing(const std::filesystem::path& path);  // the file must exist
  static File create(const std::filesystem::path& path);            // the file must not exist
  // Creates the file if it does not exist.
  static File open_or_create(const std::filesystem::path& path);
  // Creates a file without a name on the file system of `directory`, for reading and writing. The
  // file disappears when it is closed, even if the process is killed.
  static File create_unnamed(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }
  int64_t size() const;  // in bytes
  // Returns true if path() still refers to this file, false if the file was removed, renamed or
  // replaced. Does not throw.
  bool is_still_at_path() const;

  // Fills `destination` from byte `offset` of the file. Throws IoError if the file ends earlier.
  void read_at(std::span<std::byte> destination, int64_t offset) const;
  // Writes all of `source` at byte `offset` of the file.
  void write_at(std::span<const std::byte> source, int64_t offset);

  // Sets the file's size to `bytes`; cuts off what a larger file has beyond. Also reserves the
  // space if the file system can, so that a full disk is an error before anything is written.
  void reserve(int64_t bytes);
  void sync();  // writes the file's data and size to disk (fsync)

 private:
  File(int descriptor, std::filesystem::path path);
  static File open(const std::filesystem::path& path, int flags, const char* operation);

  FileDescriptor descriptor_;
  std::filesystem::path path_;
};

// Returns the contents of a file. Throws IoError, without reading, if the file is larger than
// `limit` bytes.
std::string read_file(const std::filesystem::path& path, int64_t limit = int64_t{1} << 30);

// Creates or replaces a file. At any time, also after a crash, the file has either its old contents
// or all new contents. The new contents are on disk when the function returns.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

// Whether there is a file, a folder or a link at `path`, even a dangling link. Throws IoError if
// this cannot be determined.
bool path_exists(const std::filesystem::path& path);
// Creates a folder and its missing parents. Syncs the new directory entries to disk; otherwise a
// power failure could lose the folder with its contents. Does nothing if the folder exists.
void make_folders(const std::filesystem::path& path);
// Renames a file or folder. Replaces a file or empty folder at `to`.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Removes a file, or a folder with its contents, if there is one. Removes links themselves, not
// their targets.
void remove_tree(const std::filesystem::path& path);

// Writes the entries of a directory to disk (fsync), so that the creation, renaming and removal of
// files in it survive a power failure.
void sync_directory(const std::filesystem::path& path);

// Throws the IoError "PATH: cannot OPERATION: reason" after a failed system call. error: the value
// of errno.
[[noreturn]] void raise_io_error(const std::filesystem::path& path, std::string_view operation,
                                 int error);

}  // namespace colossal::io
