#include "colossal/report/batch_output.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/io/file.h"

namespace colossal::report {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Json parse_json_line(const std::string& line) {
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
}

std::string settings_line(const BatchSettings& settings) {
  Json json = Json::object();
  for (const auto& [name, value] : settings) json[name] = value;
  return Json{{"settings", json}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Counts the complete lines of a file and their bytes. The last one must be JSON: after a power
// failure, a file may end with zeros.
void count_lines(const fs::path& path, BatchProgress& progress) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(fmt::format("{}: cannot be read", path.string()));
  std::string line, last;
  int64_t last_begins = 0;
  while (std::getline(file, line) &&
         !file.eof()) {  // a last line without a line break is not whole
    last_begins = progress.bytes;
    progress.bytes += std::ssize(line) + 1;
    ++progress.written;
    last.swap(line);
  }
  if (progress.written > 0 && parse_json_line(last).is_discarded()) {
    progress.bytes = last_begins;
    --progress.written;
  }
}

// A setting whose value differs, for messages; "" if there is none.
std::string describe_difference(const Json& before, const BatchSettings& settings) {
  for (const auto& [name, value] : settings) {
    const std::string old = before.value(name, std::string());
    if (old != value) {
      return fmt::format("{} was {}, and now is {}", name, old.empty() ? "\"\"" : old,
                         value.empty() ? "\"\"" : value);
    }
  }
  return before.size() == settings.size() ? "" : "this version has other settings";
}

// The lines of a progress file, without a torn last line.
std::vector<Json> read_progress_file(const fs::path& path) {
  std::vector<Json> lines;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    Json json = parse_json_line(line);
    if (!json.is_object()) break;
    lines.push_back(std::move(json));
  }
  return lines;
}

std::string ahead_line(int64_t index, const std::string& line) {
  return fmt::format("{{\"index\": {}, \"line\": {}}}\n", index, line);
}

bool is_file_with_bytes(const fs::path& path) {
  std::error_code ignored;
  return fs::file_size(path, ignored) > 0 && !ignored;
}

bool can_continue(const fs::path& output) {
  std::error_code ignored;
  const fs::file_status status = fs::status(output, ignored);
  if (fs::is_directory(status)) {
    throw ConfigError(fmt::format("--output={}: this is a folder; give a file", output.string()));
  }
  return !fs::exists(status) || fs::is_regular_file(status);
}

}  // namespace

fs::path batch_progress_file(const fs::path& output) {
  return output.string() + ".progress.jsonl";
}

BatchProgress read_batch_progress(const fs::path& output, const BatchSettings& settings,
                                  int64_t count) {
  BatchProgress progress{.can_continue = can_continue(output)};
  std::error_code ignored;
  if (!progress.can_continue || !fs::exists(output, ignored)) return progress;
  const fs::path beside = batch_progress_file(output);
  const std::vector<Json> lines = read_progress_file(beside);
  if (lines.empty() || !lines[0].contains("settings")) {
    if (!is_file_with_bytes(output)) return progress;
    throw ConfigError(
        fmt::format("--output={}: the file exists, and there is no {} that says how it was made; "
                    "remove it, or give another --output",
                    output.string(), beside.string()));
  }
  count_lines(output, progress);
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto index = lines[i].value("index", int64_t{-1});
    if (index < progress.written || index >= count || !lines[i].contains("line")) continue;
    progress.ahead[index] = lines[i]["line"].dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::string difference = describe_difference(lines[0]["settings"], settings);
  if (difference.empty() && progress.written > count) {
    difference = fmt::format("it has {} lines, and the input only {}", progress.written, count);
  }
  if (difference.empty()) return progress;
  if (progress.num_done() == 0) return {.can_continue = true};
  throw ConfigError(fmt::format(
      "--output={}: {} of its lines are complete, but they were made otherwise: {}; use the same "
      "settings to go on, remove the file to begin again, or give another --output",
      output.string(), format_count(progress.num_done()), difference));
}

void refuse_input_as_output(const std::vector<std::string>& inputs, const fs::path& output,
                            const std::string& flag) {
  std::error_code ignored;
  for (const std::string& input : inputs) {
    for (const fs::path& path : {output, batch_progress_file(output)}) {
      if (!fs::is_regular_file(input, ignored) || !fs::equivalent(input, path, ignored)) continue;
      throw ConfigError(fmt::format(
          "{}={}: {} is the input {}, which would be lost; give another "
          "file",
          flag, output.string(), path == output ? "this" : path.string() + " beside it", input));
    }
  }
}

BatchOutput::BatchOutput(const fs::path& output, const BatchSettings& settings, int64_t count)
    : settings_(settings_line(settings)), progress_{.can_continue = can_continue(output)} {
  const bool is_new = !io::path_exists(output);
  file_.emplace(output, OutputFile::Mode::append);
  if (!progress_.can_continue) return;
  if (!file_->try_lock()) {
    throw ConfigError(
        fmt::format("--output={}: another process is writing this file; wait for it, "
                    "or give another --output",
                    output.string()));
  }
  const fs::path beside = batch_progress_file(output);
  if (is_new) io::remove_tree(beside);
  progress_ = read_batch_progress(output, settings, count);
  file_->truncate_to(progress_.bytes);
  std::string text = settings_ + "\n";
  for (const auto& [index, line] : progress_.ahead) text += ahead_line(index, line);
  io::write_file_atomically(beside, text);
  progress_file_.emplace(beside, OutputFile::Mode::append);
}

void BatchOutput::put(int64_t index, const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (index != progress_.written) {
    if (progress_file_) progress_file_->write(ahead_line(index, line));
    progress_.ahead[index] = line;
    return;
  }
  file_->write(line + "\n");
  ++progress_.written;
  for (auto next = progress_.ahead.find(progress_.written); next != progress_.ahead.end();
       next = progress_.ahead.find(progress_.written)) {
    file_->write(next->second + "\n");
    ++progress_.written;
    progress_.ahead.erase(next);
  }
}

bool BatchOutput::is_done(int64_t index) const {
  const std::lock_guard lock(mutex_);
  return progress_.is_done(index);
}

int64_t BatchOutput::num_done() const {
  const std::lock_guard lock(mutex_);
  return progress_.num_done();
}

void BatchOutput::finish() {
  const std::lock_guard lock(mutex_);
  if (progress_file_) {
    file_->sync();
    io::write_file_atomically(progress_file_->path(), settings_ + "\n");
    progress_file_->close();
  }
  file_->close();
}

}  // namespace colossal::report
