// How the launcher of an elastic run and `colossal resize` communicate: by two files in the folder
// `elastic` of the run's checkpoint.directory. The launcher writes state.json; `resize` writes
// request.json, and waits until the state answers the request.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "colossal/io/folder_lock.h"

namespace colossal::cli {

// The launcher's side.
class ElasticFolder {
 public:
  // Creates and locks the folder, and removes an old request. Throws IoError if the folder cannot
  // be created, and ConfigError if another launcher uses it.
  explicit ElasticFolder(const std::filesystem::path& checkpoint_directory);
  // Removes the files.
  ~ElasticFolder();
  ElasticFolder(const ElasticFolder&) = delete;
  ElasticFolder& operator=(const ElasticFolder&) = delete;

  // Returns the requested number of ranks, and removes the request; nullopt if there is none. Logs
  // and ignores requests that cannot be read.
  std::optional<int> take_request();
  // Writes the state: the number of ranks that run now, and why the last request was refused;
  // empty: it was not. Logs a failure, because it must not end the run.
  void write_state(int num_ranks, const std::string& error) const;
  // Returns the step of the newest checkpoint on disk or in memory_folder; -1 if there is none.
  int64_t newest_step(const std::filesystem::path& memory_folder) const;

  // If memory_folder has a newer checkpoint than the disk, copies it to the disk. Throws IoError.
  void keep_newest(const std::filesystem::path& memory_folder) const;

 private:
  std::filesystem::path checkpoint_directory_;
  std::filesystem::path folder_;
  std::optional<io::FolderLock> lock_;
  std::string request_;  // id of the last request
};

// Asks the launcher of the elastic run that saves into checkpoint_directory to continue on this
// number of ranks. Returns when the new ranks were started. Throws ConfigError if no elastic run
// uses the directory or the launcher refuses the number, and Error if the run ends before the
// change or does not change within `timeout`.
void request_ranks(const std::filesystem::path& checkpoint_directory, int num_ranks,
                   std::chrono::seconds timeout);

}  // namespace colossal::cli
