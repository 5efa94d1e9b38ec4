// A temporary folder that is removed when the process ends, even if it is killed.
#pragma once

#include <filesystem>

#include "colossal/cluster/guard_process.h"

namespace colossal::cli {

// The constructor creates a folder in $TMPDIR; the destructor removes it with all contents. A guard
// process waits until this process ends, and removes the folder if a signal has killed this
// process.
class TemporaryFolder {
 public:
  TemporaryFolder();  // throws IoError
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  cluster::GuardProcess guard_;  // closing its pipe tells the guard that this process has ended
};

}  // namespace colossal::cli
