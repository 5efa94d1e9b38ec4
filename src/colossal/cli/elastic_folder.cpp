#include "colossal/cli/elastic_folder.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/elastic_launcher.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"

namespace colossal::cli {
namespace {

using std::filesystem::path;

constexpr const char* kFolder = "elastic";
constexpr const char* kState = "state.json";
constexpr const char* kRequest = "request.json";
constexpr const char* kTakenRequest = "taken_request.json";

struct State {
  int ranks = 0;
  std::string request;
  std::string error;
};

State read_state(const path& folder) {
  const path file = folder / kState;
  const nlohmann::json json = io::read_json(file);
  try {
    return {json.at("ranks"), json.at("request"), json.at("error")};
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

// Whether a launcher holds the folder's lock.
bool is_in_use(const path& folder) {
  try {
    const io::FolderLock lock(folder, std::chrono::milliseconds(0));
    return !lock.holds();
  } catch (const io::FolderInUse&) {
    return true;
  }
}

}  // namespace

ElasticFolder::ElasticFolder(const path& checkpoint_directory)
    : checkpoint_directory_(checkpoint_directory), folder_(checkpoint_directory / kFolder) {
  io::make_folders(folder_);
  try {
    lock_.emplace(folder_);
  } catch (const io::FolderInUse& error) {
    throw ConfigError(
        fmt::format("checkpoint.directory = \"{}\" belongs to an elastic run that is running: {}",
                    checkpoint_directory.string(), error.what()));
  }
  io::remove_tree(folder_ / kRequest);
}

ElasticFolder::~ElasticFolder() {
  try {
    lock_.reset();
    io::remove_tree(folder_);
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

std::optional<int> ElasticFolder::take_request() {
  const path file = folder_ / kTakenRequest;
  std::error_code none;
  std::filesystem::rename(folder_ / kRequest, file, none);  // so that a later request stays
  if (none) return std::nullopt;
  try {
    const nlohmann::json json = io::read_json(file);
    request_ = json.at("id");
    return json.at("ranks").get<int>();
  } catch (const std::exception& error) {
    log::warn("a request to change the number of ranks is ignored: {}", error.what());
    return std::nullopt;
  }
}

void ElasticFolder::write_state(int num_ranks, const std::string& error) const {
  const nlohmann::json state{
      {"process", getpid()}, {"ranks", num_ranks}, {"request", request_}, {"error", error}};
  try {
    io::write_file_atomically(folder_ / kState, state.dump(2) + "\n");
  } catch (const IoError& failure) {
    log::warn("{}; `colossal resize` gets no answer", failure.what());
  }
}

int64_t ElasticFolder::newest_step(const path& memory_folder) const {
  int64_t newest = -1;
  for (const path& folder : {checkpoint_directory_, memory_folder}) {
    try {
      const std::vector<io::Checkpoint> found = io::list_checkpoints(folder);
      if (!found.empty()) newest = std::max(newest, found.back().step);
    } catch (const IoError&) {
      // Only the count of restarts depends on it.
    }
  }
  return newest;
}

void ElasticFolder::keep_newest(const path& memory_folder) const {
  const std::vector<io::Checkpoint> on_disk = io::list_checkpoints(checkpoint_directory_);
  const std::vector<io::Checkpoint> in_memory = io::list_checkpoints(memory_folder);
  if (in_memory.empty()) return;
  const io::Checkpoint& newest = in_memory.back();
  if (!on_disk.empty() && on_disk.back().step >= newest.step) return;
  const path saved = checkpoint_directory_ / io::checkpoint_name(newest.step);
  io::copy_checkpoint(newest.path, saved);
  log::info("saved {}, which was in memory only", saved.string());
}

void request_ranks(const path& checkpoint_directory, int num_ranks, std::chrono::seconds timeout) {
  const path folder = checkpoint_directory / kFolder;
  if (!io::path_exists(folder / kState) || !is_in_use(folder)) {
    throw ConfigError(fmt::format(
        "no elastic run saves into {}; expected the checkpoint.directory of a run that was started "
        "with --min-ranks on this or another host",
        checkpoint_directory.string()));
  }
  const int before = read_state(folder).ranks;
  const std::string id = cluster::make_job_name();
  io::write_file_atomically(folder / kRequest,
                            nlohmann::json{{"id", id}, {"ranks", num_ranks}}.dump() + "\n");
  log::info("asked for {} instead of {}; the run saves after its current step",
            cluster::ranks_text(num_ranks), before);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (!io::path_exists(folder / kState) || !is_in_use(folder)) {
      throw Error("the run has ended before the number of ranks could be changed");
    }
    const State state = read_state(folder);
    if (state.request != id) continue;
    if (!state.error.empty()) throw ConfigError(state.error);
    if (state.ranks != num_ranks) {
      throw Error(fmt::format("the run continues on {}, because it has failed meanwhile",
                              cluster::ranks_text(state.ranks)));
    }
    log::info("the run continues on {}", cluster::ranks_text(state.ranks));
    return;
  }
  io::remove_tree(folder / kRequest);
  throw Error(
      fmt::format("the run has not changed its number of ranks within {} s", timeout.count()));
}

}  // namespace colossal::cli
