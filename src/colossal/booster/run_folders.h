// The folders that a run writes to: checks before the first step that they can be written, and
// locks them until the run ends.
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
  // Rank 0 creates and locks checkpoint.directory and log.directory. Each rank checks that it can
  // write where it will have to write, also in data.cache. Warns if the run saves no checkpoints.
  // The locks are held until the destructor runs. Errors are thrown on all ranks: ConfigError if
  // another run uses a folder, or if checkpoint::RunFolder refuses it; IoError if a folder cannot
  // be written. Collective.
  RunFolders(const Job& job, const ParallelContext& context);

  // Returns null if checkpoint.directory is empty.
  checkpoint::RunFolder* checkpoints() { return checkpoints_ ? &*checkpoints_ : nullptr; }
  // Returns the checkpoint that the run resumes from, if any.
  std::optional<std::filesystem::path> start() const;

 private:
  void lock(const char* setting, const std::string& folder);

  std::vector<std::filesystem::path> locked_;           // on rank 0
  std::vector<std::unique_ptr<io::FolderLock>> locks_;  // of locked_
  std::optional<checkpoint::RunFolder> checkpoints_;
};

// Checks that each rank can write to memory.nvme_path, if job.tiers uses it: so all "auto" tiers
// must be decided. Throws IoError on all ranks. Collective.
void check_nvme_folder(const Job& job, const ParallelContext& context);

}  // namespace colossal
