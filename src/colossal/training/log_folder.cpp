#include "colossal/training/log_folder.h"

#include <fmt/format.h>

#include <optional>

#include "colossal/base/log.h"
#include "colossal/io/file.h"
#include "colossal/training/used_settings.h"

namespace colossal {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns the run.toml of a folder with logs, "" if it has none; nullopt if it has no logs.
std::optional<std::string> run_file_in(const fs::path& folder) {
  if (is_there(folder / kRunFile)) return io::read_file(folder / kRunFile);
  if (is_there(folder / "metrics.jsonl")) return "";
  return std::nullopt;
}

fs::path subfolder(const fs::path& directory, int number) {
  return number == 1 ? directory : directory / fmt::format("run-{}", number);
}

void keep_metrics_before(const fs::path& folder) {
  if (!is_there(folder / "metrics.jsonl")) return;
  fs::path kept = folder / "metrics.before.jsonl";
  for (int number = 2; is_there(kept); ++number) {
    kept = folder / fmt::format("metrics.before-{}.jsonl", number);
  }
  fs::rename(folder / "metrics.jsonl", kept);
  log::info("this run began before; the metrics of that start are kept in {}", kept.string());
}

}  // namespace

fs::path find_log_folder(const fs::path& directory, const std::string& run, bool resumes,
                         const std::string& run_file) {
  int number = 1;
  for (; const auto found = run_file_in(subfolder(directory, number)); ++number) {
    const fs::path folder = subfolder(directory, number);
    if (run_of_file(*found) == run || (resumes && found->empty())) return folder;
    if (!resumes && same_settings(*found, run_file)) {
      keep_metrics_before(folder);
      return folder;
    }
  }
  const fs::path folder = subfolder(directory, number);
  if (number > 1) {
    log::warn("log.directory = \"{}\" has the logs of another run; those of this run go to {}",
              directory.string(), folder.string());
  }
  return folder;
}

}  // namespace colossal
