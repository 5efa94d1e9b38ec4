// A folder for temporary files that goes when the process does, however that ends.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "colossal/base/file_descriptor.h"

namespace colossal::cli {

// A new folder in $TMPDIR, removed at the end with all that is in it. A process of its own waits
// for ours to end, and removes it where a signal has left us no time to.
class TemporaryFolder {
 public:
  TemporaryFolder();  // throws IoError
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor to_guard_;  // whose end tells the guard of ours
  pid_t guard_ = -1;
};

}  // namespace colossal::cli
