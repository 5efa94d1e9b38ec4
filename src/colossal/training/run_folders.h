// Prepares the folders that a run writes to: checks before the first step that they can be written,
// locks them against other runs until the run ends, and finds the checkpoint to resume from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/checkpoint/run_folder.h"
#include "colossal/io/folder_lock.h"
#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

class RunFolders {
 public:
  // Creates and locks the folders checkpoint.directory and log.directory on rank 0, each unless its
  // key is ""; the destructor releases the locks. Checks that each rank can write its files there:
  // checkpoints, and profiles if the run makes any. If the folder data.cache does not exist yet,
  // checks that each rank can write it, too (an existing one may be read-only). Logs a warning if
  // the key checkpoint.directory is "". Collective over all ranks.
  //
  // Throws on all ranks: ConfigError if another run uses a folder, if checkpoint.directory has
  // checkpoints and checkpoint.resume is "never", if it has none and checkpoint.resume is "must",
  // or if it has checkpoints of several runs; IoError if a folder cannot be written, or if all
  // checkpoints in checkpoint.directory are damaged.
  //
  // memory_folder: for the checkpoints of checkpoint.memory_every, on a file system in memory that
  // all ranks share; also a place to look for the checkpoint from which the run goes on. Empty:
  // none.
  RunFolders(const Job& job, const ParallelContext& context, const std::string& memory_folder);

  // Returns the folder checkpoint.directory; null if that key is "".
  checkpoint::RunFolder* checkpoints() { return checkpoints_ ? &*checkpoints_ : nullptr; }
  // Returns the folder of checkpoints in memory; null if there is none.
  checkpoint::RunFolder* memory_checkpoints() {
    return memory_checkpoints_ ? &*memory_checkpoints_ : nullptr;
  }
  // Returns the checkpoint that the run resumes from, the same on all ranks; nullopt if the run
  // starts anew.
  std::optional<std::filesystem::path> start() const;

 private:
  // Creates and locks the folder `folder`. Does nothing if `folder` is "", or if this object has
  // locked the folder already, for another key. setting: the key that names the folder, for
  // messages.
  void lock(const char* setting, const std::string& folder);

  std::vector<std::filesystem::path> locked_;           // the locked folders; rank 0 only
  std::vector<std::unique_ptr<io::FolderLock>> locks_;  // the lock of each folder in locked_
  std::optional<checkpoint::RunFolder> checkpoints_, memory_checkpoints_;
};

// Checks that each rank can write to memory.nvme_path, if job.tiers stores anything on NVMe. Call
// this after memory.offload_* = "auto" is decided. Throws IoError on all ranks if a rank cannot
// write. Collective over all ranks.
void check_nvme_folder(const Job& job, const ParallelContext& context);

}  // namespace colossal
