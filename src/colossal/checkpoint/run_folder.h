// The folder of a run's checkpoints (checkpoint.directory). Finds out which run the folder belongs
// to, from which checkpoint the run resumes, and which checkpoints may be removed.
//
// A run has an id, drawn at its first start and stored in training_state/state.json of each of its
// checkpoints. A folder belongs to one run. The newest `keep` checkpoints of the run are kept,
// older ones are removed. Only intact checkpoints of this run are counted and removed: those that
// were not found damaged at the start, and that have a manifest and files of the sizes that it
// lists.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "colossal/mesh/parallel_context.h"

namespace colossal::checkpoint {

class RunFolder {
 public:
  // resume: "auto", "never" or "must", as checkpoint.resume. Rank 0 looks for the newest intact
  // checkpoint, comparing checksums, and warns of each damaged checkpoint with the reason. All
  // ranks get the same result, or throw the same error: ConfigError if "never" finds checkpoints,
  // if "must" finds none, or if the folder has checkpoints of several runs; IoError if there are
  // checkpoints but all are damaged. Collective.
  RunFolder(std::filesystem::path directory, int64_t keep, const std::string& resume,
            const ParallelContext& context);

  const std::filesystem::path& directory() const { return directory_; }
  // Returns the id of this run: 32 hexadecimal digits.
  const std::string& run() const { return run_; }
  // Returns the checkpoint that the run resumes from, if any.
  const std::optional<std::filesystem::path>& start() const { return start_; }

  // Called on rank 0 before a checkpoint is saved as `checkpoint`. If that folder exists, and is
  // not known to be an intact checkpoint of this run, it may be the only copy of something: renames
  // it and logs a warning.
  void set_aside_existing(const std::filesystem::path& checkpoint);
  // Called on rank 0 after `checkpoint` is saved. Removes older checkpoints than the newest `keep`.
  void add_saved(const std::filesystem::path& checkpoint);

 private:
  void look(const std::string& resume);
  // Whether `checkpoint` is an intact checkpoint of this run.
  bool counts(const std::filesystem::path& checkpoint) const;

  std::filesystem::path directory_;
  int64_t keep_;
  std::string run_;
  std::optional<std::filesystem::path> start_;
  // Names of checkpoints, on rank 0. intact_: those that were intact when they were read at the
  // start, or that this run has saved. damaged_: those that were damaged when they were read.
  std::set<std::string> intact_, damaged_;
};

}  // namespace colossal::checkpoint
