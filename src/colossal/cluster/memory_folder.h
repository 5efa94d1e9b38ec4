// A folder in memory for the checkpoints of an elastic job on one host. The launcher has it, so
// that it outlives the ranks.
#pragma once

#include <filesystem>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

class MemoryFolder {
 public:
  // Creates and locks a folder of its own in /dev/shm, which only this user can read. Also removes
  // such folders of this user whose launchers have ended without removing them. If /dev/shm cannot
  // be written, path() is empty.
  MemoryFolder();
  ~MemoryFolder();  // removes the folder with its contents
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;  // the folder itself, with a file lock that ends with this process
};

}  // namespace colossal::cluster
