#include "colossal/training/run_folders.h"

#include "colossal/base/log.h"
#include "colossal/checkpoint/all_or_none.h"
#include "colossal/checkpoint/write_proof.h"

namespace colossal {
namespace {

namespace fs = std::filesystem;

// Returns whether the run creates the cache. An existing cache, from another host or user, may be
// read-only.
bool makes_cache(const std::string& cache) {
  std::error_code ignored;
  return !cache.empty() && !fs::exists(cache, ignored);
}

}  // namespace

RunFolders::RunFolders(const Job& job, const ParallelContext& context,
                       const std::string& memory_folder) {
  const CheckpointConfig& config = job.config.checkpoint;
  const LogConfig& logs = job.config.log;
  const comm::Group& all = context.world_group();
  checkpoint::on_first_rank(all, [&] {
    lock("checkpoint.directory", config.directory);
    lock("log.directory", logs.directory);
    return "";
  });
  // All ranks write profiles; rank 0 alone writes the other logs and holds a lock on the folder.
  checkpoint::check_writable("log.directory", logs.directory,
                             !logs.directory.empty() && logs.profile > 0, all);
  checkpoint::check_writable("data.cache", job.config.data.cache,
                             makes_cache(job.config.data.cache), all);
  if (config.directory.empty()) {
    if (context.rank() == 0) {
      log::warn(
          "checkpoint.directory is empty, so the trained model will not be saved; set it to a "
          "folder for checkpoints");
    }
    return;
  }
  checkpoint::check_shared_writable("checkpoint.directory", config.directory, all);
  checkpoints_.emplace(config.directory, config.keep, config.resume, context, memory_folder);
  if (!memory_folder.empty()) memory_checkpoints_.emplace(checkpoints_->in_memory());
}

std::optional<fs::path> RunFolders::start() const {
  return checkpoints_ ? checkpoints_->start() : std::nullopt;
}

void RunFolders::lock(const char* setting, const std::string& folder) {
  if (folder.empty()) return;
  try {
    io::make_folders(folder);
    // Two settings may name the same folder.
    for (const fs::path& locked : locked_) {
      if (fs::equivalent(locked, folder)) return;
    }
    locks_.push_back(std::make_unique<io::FolderLock>(folder));
    locked_.push_back(folder);
  } catch (const io::FolderInUse& error) {
    throw ConfigError(
        fmt::format("{} = \"{}\": {}, and only one run at a time can use a folder; wait until it "
                    "ends, or use another {}",
                    setting, folder, error.what(), setting));
  } catch (const IoError& error) {
    throw IoError(fmt::format("{} = \"{}\" cannot be written: {}", setting, folder, error.what()));
  }
  if (!locks_.back()->holds()) {
    log::warn(
        "{} = \"{}\" is on a file system without locks: make sure that no other run uses it at the "
        "same time",
        setting, folder);
  }
}

void check_nvme_folder(const Job& job, const ParallelContext& context) {
  checkpoint::check_writable("memory.nvme_path", job.tiers.nvme_path,
                             job.tiers.uses(memory::Tier::nvme), context.world_group());
}

}  // namespace colossal
