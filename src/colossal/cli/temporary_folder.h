// A temporary folder that is removed by its destructor or, if the process is killed before, by a
// guard process.
#pragma once

#include <filesystem>

#include "colossal/cluster/guard_process.h"

namespace colossal::cli {

// The constructor creates a folder in $TMPDIR (/tmp if that is not set); the destructor removes the
// folder with its contents. A guard process waits until this process ends, and removes the folder
// if the destructor did not run.
class TemporaryFolder {
 public:
  // Throws IoError if the folder or the guard process cannot be created.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Returns the id of the guard process.
  pid_t guard_pid() const { return guard_.pid; }

 private:
  std::filesystem::path path_;
  // The guard waits for the end of a pipe, which closes when this process ends.
  cluster::GuardProcess guard_;
};

}  // namespace colossal::cli
