// The folders that a run writes to: proven writable before its first step, and locked until its
// end.
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
  // Rank 0 makes checkpoint.directory and log.directory and locks them; each rank proves that it
  // can write where it will have to. Warns where the run keeps nothing. All ranks throw the same:
  // ConfigError where another run uses a folder, or for what checkpoint::RunFolder refuses; IoError
  // for what cannot be written. Collective.
  RunFolders(const Job& job, const ParallelContext& context);

  // None where checkpoint.directory is empty.
  checkpoint::RunFolder* checkpoints() { return checkpoints_ ? &*checkpoints_ : nullptr; }
  // The checkpoint that the run goes on from, if any.
  std::optional<std::filesystem::path> start() const;

 private:
  void lock(const char* setting, const std::string& folder);

  std::vector<std::filesystem::path> locked_;  // on rank 0
  std::vector<std::unique_ptr<io::FolderLock>> locks_;
  std::optional<checkpoint::RunFolder> checkpoints_;
};

// The same proof for memory.nvme_path, once it is known whether the run uses it.
void prove_swap_folder(const Job& job, const ParallelContext& context);

}  // namespace colossal
