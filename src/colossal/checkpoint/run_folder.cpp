#include "colossal/checkpoint/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/checkpoint/all_or_none.h"
#include "colossal/checkpoint/checkpoint.h"
#include "colossal/io/checkpoint_directory.h"

namespace colossal::checkpoint {
namespace {

namespace fs = std::filesystem;

// Returns the ID of a checkpoint's run, or "" if the checkpoint has none.
std::string run_of(const fs::path& checkpoint) {
  return read_state(checkpoint).value("run", "");
}

std::string names_of(const std::vector<io::Checkpoint>& checkpoints) {
  std::string names;
  for (const io::Checkpoint& checkpoint : checkpoints) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", io::checkpoint_name(checkpoint.step));
  }
  return names;
}

void refuse_to_begin_anew(const fs::path& directory,
                          const std::vector<io::Checkpoint>& checkpoints) {
  if (checkpoints.empty()) return;
  throw ConfigError(
      fmt::format("checkpoint.resume = \"never\" starts a new run, but {} holds checkpoints of "
                  "another run ({}); use another checkpoint.directory, or checkpoint.resume = "
                  "\"auto\" to continue that run",
                  directory.string(), names_of(checkpoints)));
}

void refuse_none_whole(const fs::path& directory, const std::vector<io::Checkpoint>& checkpoints) {
  throw IoError(fmt::format(
      "{}: no checkpoint is whole ({}; see the warnings above), so the run cannot resume; restore "
      "one from a copy, or, to start a new run, move them away or use another checkpoint.directory",
      directory.string(), names_of(checkpoints)));
}

// newest: by run, the name of its newest checkpoint.
void refuse_several_runs(const fs::path& directory,
                         const std::map<std::string, std::string>& newest) {
  if (newest.size() < 2) return;
  std::string found;
  for (const auto& [run, name] : newest) {
    found += fmt::format("{}{} of run {}", found.empty() ? "" : ", ", name, run);
  }
  throw ConfigError(
      fmt::format("{} holds checkpoints of {} runs ({}), but a folder can have those of one run "
                  "only: move the others away, or use another checkpoint.directory",
                  directory.string(), newest.size(), found));
}

// A checkpoint that was renamed counts as one of another step: it would be taken for the newest,
// and newer ones would be removed as older.
void refuse_other_steps(const std::vector<std::string>& misnamed) {
  if (misnamed.empty()) return;
  throw ConfigError(fmt::format("{}; give it the name of its step, or move it to another folder",
                                misnamed.front()));
}

// Returns the checkpoints in `directory` that have other names than list_checkpoints() finds.
std::vector<std::string> names_of_unlisted(const fs::path& directory) {
  std::set<std::string> listed;
  for (const io::Checkpoint& checkpoint : io::list_checkpoints(directory)) {
    listed.insert(checkpoint.path.filename());
  }
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename();
    const bool is_aside = name.find(".aside") != std::string::npos;  // io::set_aside()
    if (listed.contains(name) || name.starts_with(".") || is_aside) continue;
    if (fs::exists(entry.path() / io::kManifestFile, ignored) &&
        fs::exists(entry.path() / kStateFile, ignored)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

// Says which checkpoints are not used because of their names. Throws ConfigError if the run would
// begin anew beside them.
void tell_of_unlisted(const fs::path& directory, bool begins_anew, const std::string& resume) {
  const std::vector<std::string> names = names_of_unlisted(directory);
  if (names.empty()) return;
  const std::string found = fmt::format(
      "{} holds the checkpoint{} {}, but a run resumes only from those named {} and so on",
      directory.string(), names.size() == 1 ? "" : "s", fmt::join(names, ", "),
      io::checkpoint_name(100));
  if (begins_anew && resume != "never") {
    throw ConfigError(fmt::format(
        "{}; give the one to resume from the name of its step ({}), or use "
        "checkpoint.resume = \"never\" to start a new run",
        found,
        io::checkpoint_name(read_state(directory / names.front()).value("step", int64_t{100}))));
  }
  log::warn("{}; runs neither use nor remove {}", found, names.size() == 1 ? "it" : "them");
}

}  // namespace

std::string draw_run_id() {
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) id += fmt::format("{:08x}", random());
  return id;
}

RunFolder::RunFolder(fs::path directory, int64_t keep, const std::string& resume,
                     const ParallelContext& context, fs::path memory_folder)
    : directory_(std::move(directory)), memory_folder_(std::move(memory_folder)), keep_(keep) {
  const std::string answer = on_first_rank(context.world_group(), [&] {
    look(resume);
    return nlohmann::json::array({run_, start_ ? start_->string() : ""}).dump();
  });
  const nlohmann::json found = nlohmann::json::parse(answer);
  run_ = found.at(0);
  if (const std::string start = found.at(1); !start.empty()) start_ = start;
}

RunFolder RunFolder::in_memory() const {
  RunFolder folder;
  folder.directory_ = memory_folder_;
  folder.run_ = run_;
  folder.logs_removals_ = false;
  return folder;
}

std::vector<io::Checkpoint> RunFolder::list_all() const {
  std::vector<io::Checkpoint> all = io::list_checkpoints(directory_);
  if (memory_folder_.empty()) return all;
  std::ranges::copy(io::list_checkpoints(memory_folder_), std::back_inserter(all));
  std::ranges::stable_sort(all, {}, &io::Checkpoint::step);
  return all;
}

void RunFolder::look(const std::string& resume) {
  if (resume == "never") refuse_to_begin_anew(directory_, io::list_checkpoints(directory_));
  io::remove_stale_temporaries(directory_);
  if (!memory_folder_.empty()) io::remove_stale_temporaries(memory_folder_);
  const std::vector<io::Checkpoint> all = list_all();
  std::map<std::string, std::string> newest_of_run;
  std::vector<std::string> misnamed;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const io::Verify how = start_ ? io::Verify::sizes : io::Verify::contents;
    const auto damage = io::verify_directory(it->path, how);
    const std::string name = it->path.filename();
    const bool is_in_memory = it->path.parent_path() == memory_folder_;
    if (!damage.empty()) {
      if (!is_in_memory) damaged_.insert(name);
      log::warn("{} is damaged and skipped: {}", it->path.string(), damage.front().what);
      continue;
    }
    const nlohmann::json state = read_state(it->path);
    const std::string run = state.value("run", "");
    if (const int64_t step = state.value("step", it->step); step != it->step) {
      misnamed.push_back(fmt::format("{} is the checkpoint of step {}, not of step {}",
                                     it->path.string(), step, it->step));
    }
    if (!run.empty()) newest_of_run.try_emplace(run, name);
    if (start_) continue;
    start_ = it->path;
    run_ = run;
    if (!is_in_memory) intact_.insert(name);
  }
  if (!start_ && !all.empty()) refuse_none_whole(directory_, all);
  tell_of_unlisted(directory_, /*begins_anew=*/!start_, resume);
  if (!start_ && resume == "must") {
    throw ConfigError(
        fmt::format("checkpoint.resume = \"must\", but {} holds no whole checkpoint; use \"auto\" "
                    "to start a new run",
                    directory_.string()));
  }
  refuse_several_runs(directory_, newest_of_run);
  refuse_other_steps(misnamed);
  if (run_.empty()) run_ = draw_run_id();
}

bool RunFolder::counts(const fs::path& checkpoint) const {
  return !damaged_.contains(checkpoint.filename()) &&
         io::verify_directory(checkpoint, io::Verify::sizes).empty() && run_of(checkpoint) == run_;
}

void RunFolder::set_aside_existing(const fs::path& checkpoint) {
  std::error_code ignored;
  // Nothing to do: DirectoryWriter replaces an empty folder, and refuses a file.
  if (!fs::is_directory(checkpoint, ignored) || fs::is_empty(checkpoint, ignored)) return;
  if (intact_.contains(checkpoint.filename()) && counts(checkpoint)) return;
  const fs::path aside = io::set_aside(checkpoint);
  log::warn("{} is damaged or belongs to another run, and is kept as {}", checkpoint.string(),
            aside.string());
}

void RunFolder::add_saved(const fs::path& checkpoint) {
  intact_.insert(checkpoint.filename());
  damaged_.erase(checkpoint.filename());
  if (keep_ == 0) return;
  try {
    const std::vector<fs::path> removed =
        io::prune(directory_, keep_, kept_also_,
                  [this](const io::Checkpoint& found) { return counts(found.path); });
    if (!logs_removals_) return;
    for (const fs::path& path : removed) {
      log::info("deleted {} (checkpoint.keep = {})", path.string(), keep_);
    }
  } catch (const IoError& error) {
    log::warn("older checkpoints were not deleted: {}", error.what());
  }
}

}  // namespace colossal::checkpoint
