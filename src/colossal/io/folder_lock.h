// Gives one process exclusive use of a folder, such as the folder of a run. The kernel releases the
// lock when the process ends, even if it is killed.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "colossal/base/error.h"
#include "colossal/io/file.h"

namespace colossal::io {

// Thrown if the folder is locked already, by this or another process. The message names the process
// if known.
class FolderInUse : public IoError {
 public:
  using IoError::IoError;
};

class FolderLock {
 public:
  // Creates and locks the file .colossal.lock in `folder`, which must exist. If another
  // FolderLock, of this or another process, holds the lock, waits up to `patience`, because a
  // process that was just killed may still be ending; then throws FolderInUse. Throws IoError if
  // the folder is not writable. On network file systems with locks, the lock also excludes
  // processes on other hosts.
  explicit FolderLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~FolderLock();  // releases the lock and removes the lock file
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Whether the folder is locked. False on a file system without locks, where another process can
  // use the folder at the same time.
  bool holds() const { return holds_; }

 private:
  std::optional<File> file_;
  bool holds_ = false;
};

}  // namespace colossal::io
