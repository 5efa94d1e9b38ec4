// The folder of a run's checkpoints: which run it belongs to, from which checkpoint the run
// resumes, and which checkpoints may be removed.
//
// A run has an id, drawn at its first start and stored in training_state/state.json of each of its
// checkpoints. A folder belongs to one run. A checkpoint counts for `keep` if it belongs to this
// run and is intact: it was not found damaged at the start, and it has a manifest and files of the
// sizes that the manifest lists. All other checkpoints are never removed.
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
  // checkpoint, and warns of each damaged checkpoint with the reason. All ranks get the same
  // result, or throw the same error: ConfigError if the folder belongs to another run, or if "must"
  // finds no checkpoint; IoError if there are checkpoints but all are damaged. Collective.
  RunFolder(std::filesystem::path directory, int64_t keep, const std::string& resume,
            const ParallelContext& context);

  const std::filesystem::path& directory() const { return directory_; }
  // Returns the id of this run: 32 hexadecimal digits.
  const std::string& run() const { return run_; }
  // Returns the checkpoint that the run resumes from, if any.
  const std::optional<std::filesystem::path>& start() const { return start_; }

  // set_aside_existing() is called on rank 0 before `checkpoint` is saved. If `checkpoint` exists
  // and is not known to be an intact checkpoint of this run, renames it and logs a warning: it may
  // be the only copy of something.
  void set_aside_existing(const std::filesystem::path& checkpoint);
  // Called on rank 0 after `checkpoint` is saved. Removes checkpoints that newer ones replace.
  void add_saved(const std::filesystem::path& checkpoint);

 private:
  void look(const std::string& resume);
  bool counts(const std::filesystem::path& checkpoint) const;
  void note_damage(const std::filesystem::path& checkpoint, const std::string& what);

  std::filesystem::path directory_;
  int64_t keep_;
  std::string run_;
  std::optional<std::filesystem::path> start_;
  // Names of checkpoints, on rank 0. whole_: intact when this read or wrote them. damaged_: damaged
  // when this read them.
  std::set<std::string> whole_, damaged_;
};

}  // namespace colossal::checkpoint
