// A folder that one process has to itself. The kernel lets the lock go when the process ends,
// however it ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "colossal/base/error.h"
#include "colossal/io/file.h"

namespace colossal::io {

// The folder is another process's: says whose, as far as that is known.
class FolderInUse : public IoError {
 public:
  using IoError::IoError;
};

class FolderLock {
 public:
  // The folder must exist. Where another process has it, waits for up to `patience`: what was
  // killed a moment ago may still be ending. Throws FolderInUse, and IoError where the folder
  // cannot be written. The lock lies in a file in the folder, on network file systems too, and
  // holds against all hosts there.
  explicit FolderLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds patience = std::chrono::seconds(3));
  ~FolderLock();  // removes the file
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // False on a file system without locks: two processes do not notice each other there.
  bool holds() const { return holds_; }

 private:
  std::optional<File> file_;
  bool holds_ = false;
};

}  // namespace colossal::io
