// The folder of a run's checkpoints: which run it belongs to, where that goes on from, what may be
// removed.
//
// A run has an id, drawn at its first start and kept in training_state/state.json of each of its
// checkpoints; a folder is one run's. A checkpoint counts for `keep` where it is this run's, and
// whole: not found damaged at the start, with a manifest and files of the sizes it names. What does
// not count is never removed.
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
  // resume: "auto", "never" or "must", as checkpoint.resume. Looks on rank 0 for the newest
  // checkpoint that is whole, and warns of each that is damaged, naming what is wrong with it. All
  // ranks get the answer, or the same error: ConfigError where the folder is another run's, or
  // "must" finds none; IoError where no checkpoint of several is whole. Collective.
  RunFolder(std::filesystem::path directory, int64_t keep, const std::string& resume,
            const ParallelContext& context);

  const std::filesystem::path& directory() const { return directory_; }
  // Returns the id of this run: 32 hexadecimal digits.
  const std::string& run() const { return run_; }
  // The checkpoint that the run goes on from, if any.
  const std::optional<std::filesystem::path>& start() const { return start_; }

  // Both are called on rank 0, before and after a save of `checkpoint`. make_way_for() sets aside,
  // with a warning, what is there and not known to be this run's and whole: it may be the only copy
  // of something.
  void make_way_for(const std::filesystem::path& checkpoint);
  // add_saved() removes checkpoints that newer ones replace.
  void add_saved(const std::filesystem::path& checkpoint);

 private:
  void look(const std::string& resume);
  bool counts(const std::filesystem::path& checkpoint) const;
  void note_damage(const std::filesystem::path& checkpoint, const std::string& what);

  std::filesystem::path directory_;
  int64_t keep_;
  std::string run_;
  std::optional<std::filesystem::path> start_;
  // Names of checkpoints, on rank 0: whole when read or written here; damaged when read here.
  std::set<std::string> whole_, damaged_;
};

}  // namespace colossal::checkpoint
