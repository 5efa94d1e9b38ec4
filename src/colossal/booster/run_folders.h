// Prepares the folders that a run writes to: checks before the first step that they can be written,
// locks them against other runs until the run ends, and finds the checkpoint to resume from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/checkpoint/run_folder.h"
#include "colossal/io/folder_lock.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

class RunFolders {
 public:
  // Creates and locks checkpoint.directory and log.directory on rank 0; the destructor releases the
  // locks. Checks on each rank that the rank can write its files: checkpoints, profiles, and a new
  // data.cache. Logs a warning if checkpoint.directory is empty. Throws on all ranks: ConfigError
  // if another run uses a folder, or if the constructor of checkpoint::RunFolder throws it; IoError
  // if a folder cannot be written or all its checkpoints are damaged. Collective over all ranks.
  RunFolders(const Job& job, const ParallelContext& context);

  // Returns the folder checkpoint.directory; null if that key is empty.
  checkpoint::RunFolder* checkpoints() { return checkpoints_ ? &*checkpoints_ : nullptr; }
  // Returns the checkpoint that the run resumes from; nullopt if the run starts anew.
  std::optional<std::filesystem::path> start() const;

 private:
  // Creates and locks `folder`, unless it is empty or locked already. setting: the key that names
  // the folder, for messages.
  void lock(const char* setting, const std::string& folder);

  std::vector<std::filesystem::path> locked_;           // the locked folders; empty but on rank 0
  std::vector<std::unique_ptr<io::FolderLock>> locks_;  // the lock of each folder in locked_
  std::optional<checkpoint::RunFolder> checkpoints_;
};

// Checks that each rank can write to memory.nvme_path, if job.tiers stores anything on NVMe. Call
// this after memory.offload_* = "auto" is decided. Throws IoError on all ranks if a rank cannot
// write. Collective over all ranks.
void check_nvme_folder(const Job& job, const ParallelContext& context);

}  // namespace colossal
