// The log folder of a run (log.directory): a folder has the logs of one run only, so that no report
// shows two runs as one.
#pragma once

#include <filesystem>
#include <string>

namespace colossal {

// Returns the folder for a run's logs: `directory`, or its subfolder run-2, run-3 ... if it has the
// logs of another run. A folder belongs to the run whose id is in its run.toml (used_settings.h); a
// folder with metrics.jsonl and without run.toml belongs to a resumed run. If the run is new and
// the folder's run has the same settings, it is the same run, begun again: its metrics.jsonl is
// kept as metrics.before.jsonl (metrics.before-2.jsonl ...). run_file: what run_file() returns for
// this run. Logs a warning if it returns a subfolder, which it does not create. Throws IoError if a
// file cannot be read.
std::filesystem::path find_log_folder(const std::filesystem::path& directory,
                                      const std::string& run, bool resumes,
                                      const std::string& run_file);

}  // namespace colossal
