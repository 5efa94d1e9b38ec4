// The folder of a run's checkpoints (checkpoint.directory): finds the checkpoint from which the run
// resumes, and removes old checkpoints.
//
// A run has a random id, drawn at its first start and stored in training_state/state.json of each
// of its checkpoints. A folder must have checkpoints of one run only. The newest `keep` checkpoints
// (those of the highest steps) are kept, and those of the best steps (keep_also()); older ones are
// removed. Only intact checkpoints of this
// run are counted and removed: those that RunFolder's constructor did not find damaged, and whose
// files still have the sizes in the manifest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "colossal/io/checkpoint_directory.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::checkpoint {

// Returns a new id of a run: 32 random hexadecimal digits.
std::string draw_run_id();

class RunFolder {
 public:
  // Finds the newest intact checkpoint in `directory`. First, rank 0 removes what killed processes
  // have left in the folder (io::remove_stale_temporaries()). Then it compares the checksums of the
  // checkpoints, from the newest on, until one is intact. Of the older checkpoints, it compares
  // only the sizes of files. It logs a warning for each damaged checkpoint. keep: number of
  // checkpoints to keep; 0: all. resume: the setting checkpoint.resume. "auto" resumes from the
  // checkpoint or, if there is none, starts a new run; "never" starts a new run; "must" resumes.
  // Collective; all ranks get the same result or throw the same error.
  //
  // Throws ConfigError if `resume` is "never" and there are checkpoints, if it is "must" and there
  // are none, if there are checkpoints of several runs, if one has the state of another step than
  // its name says, or if there are only checkpoints with other names than step-N (unless `resume`
  // is "never"). Throws IoError if all checkpoints are damaged. Logs a warning if there are
  // checkpoints with other names beside those that count.
  //
  // memory_folder: also look for checkpoints of the run in this folder (in_memory()); of two with
  // the same step, prefer the one in memory. Empty: none.
  RunFolder(std::filesystem::path directory, int64_t keep, const std::string& resume,
            const ParallelContext& context, std::filesystem::path memory_folder = {});

  // Returns the folder memory_folder of the same run. It keeps one checkpoint.
  RunFolder in_memory() const;

  const std::filesystem::path& directory() const { return directory_; }
  // Returns the id of this run: 32 hexadecimal digits.
  const std::string& run() const { return run_; }
  // Returns the path of the checkpoint from which the run resumes; nullopt if the run is new.
  const std::optional<std::filesystem::path>& start() const { return start_; }

  // Called on rank 0 before a checkpoint is saved at the path `checkpoint`. If there is already a
  // folder at this path, and it is not empty, renames it (io::set_aside()) and logs a warning,
  // because it may be the only copy of its contents. Leaves it in place only if it is start() or
  // was passed to add_saved(), and is still an intact checkpoint of this run: the save then
  // replaces it.
  void set_aside_existing(const std::filesystem::path& checkpoint);
  // Sets how many checkpoints are kept, from the next save on. Not to be called during a save.
  void keep_newest(int64_t keep) { keep_ = keep; }
  // Sets the steps whose checkpoints are kept in addition to the newest `keep`, from the next save
  // on. Not to be called during a save.
  void keep_also(std::set<int64_t> steps) { kept_also_ = std::move(steps); }
  // Called on rank 0 after a checkpoint was saved at the path `checkpoint`. Removes the intact
  // checkpoints of this run except the newest `keep` and those of keep_also(). Logs which it
  // removes, and a warning if it cannot remove one.
  void add_saved(const std::filesystem::path& checkpoint);

 private:
  RunFolder() = default;
  // Returns the checkpoints of both folders, in ascending order of preference.
  std::vector<io::Checkpoint> list_all() const;
  // Runs the constructor's search on rank 0.
  void look(const std::string& resume);
  // Whether `checkpoint` is an intact checkpoint of this run.
  bool counts(const std::filesystem::path& checkpoint) const;

  std::filesystem::path directory_, memory_folder_;
  int64_t keep_ = 1;
  std::set<int64_t> kept_also_;
  bool logs_removals_ = true;
  std::string run_;
  std::optional<std::filesystem::path> start_;
  // Names of checkpoints, on rank 0. intact_: those whose contents are known to be intact: the
  // checkpoint from which the run resumes, and those that this process has saved. damaged_: those
  // that look() found damaged, and that were not saved again.
  std::set<std::string> intact_, damaged_;
};

}  // namespace colossal::checkpoint
