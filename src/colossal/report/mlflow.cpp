#include "colossal/report/mlflow.h"

#include <chrono>
#include <cmath>
#include <fstream>

#include "colossal/base/error.h"
#include "colossal/io/file.h"

namespace colossal::report {
namespace {

namespace fs = std::filesystem;

constexpr int kRunning = 1, kFinished = 3, kFailed = 4;  // MLflow's RunStatus
constexpr size_t kLongestParam = 6000;                   // characters

int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Returns a text as YAML, in single quotes.
std::string yaml(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += '\'';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + "'";
}

// Returns a name with only the characters that MLflow allows.
std::string allowed(std::string name) {
  for (char& c : name) {
    const bool fine = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ||
                      c == '.' || c == ' ' || c == '/';
    if (!fine) c = '_';
  }
  return name;
}

// Returns the value of a key of a meta.yaml, without quotes; "" if the file lacks it.
std::string read_meta(const fs::path& folder, const std::string& key) {
  std::ifstream file(folder / "meta.yaml");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key + ": ")) continue;
    std::string value = line.substr(key.size() + 2);
    if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'') {
      value = value.substr(1, value.size() - 2);
      for (size_t at = 0; (at = value.find("''", at)) != std::string::npos; ++at)
        value.erase(at, 1);
    }
    return value;
  }
  return "";
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw IoError(fmt::format("cannot make {}: {}", folder.string(), error.message()));
  }
}

// Returns the id of the experiment of this name, which is created if the store has none.
std::string experiment_id(const fs::path& store, const std::string& name, const std::string& run) {
  make_folder(store);
  for (const auto& entry : fs::directory_iterator(store)) {
    if (entry.is_directory() && read_meta(entry.path(), "name") == name) {
      return entry.path().filename().string();
    }
  }
  // Of 18 digits, like those that MLflow draws.
  const uint64_t drawn = std::stoull(run.substr(0, 15), nullptr, 16);
  const std::string id = std::to_string(100'000'000'000'000'000 + drawn % 900'000'000'000'000'000);
  const fs::path folder = store / id;
  make_folder(folder);
  io::write_file_atomically(
      folder / "meta.yaml",
      fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\n"
                  "last_update_time: {}\nlifecycle_stage: active\nname: {}\n",
                  yaml("file://" + fs::absolute(folder).string()), now_ms(), id, now_ms(),
                  yaml(name)));
  return id;
}

}  // namespace

MlflowRun::MlflowRun(const fs::path& store, const std::string& experiment, const std::string& run,
                     const std::string& name,
                     const std::vector<std::pair<std::string, std::string>>& params)
    : experiment_id_(experiment_id(store, experiment, run)), run_(run), name_(name) {
  folder_ = fs::absolute(store) / experiment_id_ / run;
  for (const char* part : {"params", "tags", "metrics", "artifacts"}) make_folder(folder_ / part);
  const std::string started = read_meta(folder_, "start_time");
  start_time_ = started.empty() ? now_ms() : std::stoll(started);
  write_meta(kRunning, "null");
  for (const auto& [key, value] : params) {
    OutputFile(folder_ / "params" / allowed(key)).write(value.substr(0, kLongestParam));
  }
  OutputFile(folder_ / "tags" / "mlflow.runName").write(name_);
}

void MlflowRun::write_meta(int status, const std::string& end_time) {
  io::write_file_atomically(
      folder_ / "meta.yaml",
      fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\n"
                  "lifecycle_stage: active\nrun_id: '{}'\nrun_name: {}\nsource_name: ''\n"
                  "source_type: 4\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\n"
                  "user_id: ''\n",
                  yaml("file://" + (folder_ / "artifacts").string()), end_time, experiment_id_,
                  run_, yaml(name_), start_time_, status));
}

void MlflowRun::write_scalars(int64_t step, const std::vector<Scalar>& scalars) {
  for (const Scalar& scalar : scalars) {
    if (!std::isfinite(scalar.value)) continue;
    const std::string name = allowed(scalar.tag);
    auto file = metrics_.find(name);
    if (file == metrics_.end()) {
      const fs::path path = folder_ / "metrics" / name;
      make_folder(path.parent_path());
      file = metrics_.emplace(name, OutputFile(path, OutputFile::Mode::append)).first;
    }
    file->second.write(fmt::format("{} {} {}\n", now_ms(), scalar.value, step));
  }
}

void MlflowRun::end(bool failed) {
  write_meta(failed ? kFailed : kFinished, std::to_string(now_ms()));
}

}  // namespace colossal::report
