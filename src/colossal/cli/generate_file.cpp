#include "colossal/cli/generate_file.h"

#include <fmt/ranges.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <span>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/progress.h"
#include "colossal/base/units.h"
#include "colossal/data/json_line.h"
#include "colossal/io/manifest.h"
#include "colossal/server/api_error.h"

namespace colossal::cli {
namespace {

constexpr std::chrono::milliseconds kStopInterval{50};  // how often a stop is looked for
constexpr size_t kMostNamed = 5;                        // invalid lines that a message names

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open()) throw ConfigError(fmt::format("--input={}: no such file", path));
  if (file.bad()) throw IoError(fmt::format("--input={}: cannot be read", path));
  return text;
}

std::string hash_of(const std::string& text) {
  return fmt::format("{:016x}", io::checksum(std::as_bytes(std::span(text))));
}

int64_t tokens_of(const serve::Engine& engine) {
  const serve::EngineStatistics statistics = engine.statistics();
  return statistics.prompt_tokens + statistics.generated_tokens;
}

}  // namespace

std::string path_of_argument(const std::string& given, const std::string& standard) {
  return given == "-" ? standard : given;
}

// What the callbacks of requests share with run(). They may outlive run(), but not the engine.
class GenerateFile::Answers {
 public:
  Answers(const std::string& path, const report::BatchSettings& settings, int64_t count)
      : output_(path, settings, count),
        progress_("generating", output_.num_done(), count, "lines") {}

  bool is_done(int64_t index) const { return output_.is_done(index); }

  // Adds the line `line` of the output, which `sequences` sequences have given. tokens: of all
  // lines so far.
  void put(int64_t index, const std::string& line, int64_t sequences, int64_t tokens) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    sequences_ -= sequences;
    try {
      output_.put(index, line);
    } catch (const IoError& error) {
      write_error_ = error.what();
      is_over_ = true;
    }
    progress_.update(output_.num_done(), [tokens, began = began_](double) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
      return format_rate(static_cast<double>(tokens) / seconds.count(), "tokens");
    });
    changed_.notify_all();
  }
  void begin(int64_t sequences) {
    const std::lock_guard lock(mutex_);
    sequences_ += sequences;
  }
  // From now on, put() does nothing.
  void end() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  // Waits until at most `most` sequences are under way, and returns true; false if a stop was asked
  // for or end() was called. Throws IoError if a line could not be written.
  bool wait(int64_t most, const cluster::StopListener& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.requested() && !is_over_ && sequences_ > most)
      changed_.wait_for(lock, kStopInterval);
    if (!write_error_.empty()) throw IoError(write_error_);
    return !stop.requested() && !is_over_;
  }
  void finish() {
    progress_.finish();
    output_.finish();
  }
  int64_t num_done() const { return output_.num_done(); }

 private:
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  report::BatchOutput output_;
  ProgressLine progress_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  int64_t sequences_ = 0;    // under way
  bool is_over_ = false;     // nothing more is written
  std::string write_error_;  // of the first line that could not be written; "": none
};

GenerateFile::GenerateFile(const GenerateFileArguments& arguments, const server::ServedModel& model,
                           report::BatchSettings settings)
    : arguments_(arguments), model_(model), settings_(std::move(settings)), metrics_(model.name()) {
  if (arguments_.invalid != "error" && arguments_.invalid != "skip") {
    throw ConfigError(fmt::format("--invalid={}: must be error or skip", arguments_.invalid));
  }
  const std::string text = read_whole(path_of_argument(arguments_.input, "/dev/stdin"));
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    std::string line = text.substr(begin, end - begin);
    if (!data::is_blank(line)) lines_.push_back({number, std::move(line)});
    begin = end + 1;
  }
  settings_.insert(settings_.begin(), {"the content of --input", hash_of(text)});
  const std::string output = path_of_argument(arguments_.output, "/dev/stdout");
  report::refuse_input_as_output({path_of_argument(arguments_.input, "/dev/stdin")}, output,
                                 "--output");
  progress_ = report::read_batch_progress(output, settings_, num_lines());
  check_lines();
}

std::string GenerateFile::place(int64_t index) const {
  return fmt::format("{}:{}", arguments_.input, lines_[index].number);
}

void GenerateFile::check_lines() {
  std::set<std::string> notes;
  for (int64_t index = 0; index < num_lines(); ++index) {
    try {
      const auto line =
          server::read_batch_line(lines_[index].text, index, arguments_.defaults, model_, rules_);
      notes.insert(line->notes().begin(), line->notes().end());
      num_sequences_ += line->num_sequences();
    } catch (const server::ApiError& error) {
      invalid_[index] = error.what();
    }
  }
  if (!invalid_.empty() && arguments_.invalid == "error") {
    std::vector<std::string> named;
    for (const auto& [index, reason] : invalid_) {
      if (named.size() < kMostNamed) named.push_back(place(index) + ": " + reason);
    }
    throw ConfigError(fmt::format(
        "{}\n  {} of {} lines cannot be answered, and none was; correct them, or use "
        "--invalid=skip, which gives them an \"error\" in the output",
        fmt::join(named, "\n  "), format_count(std::ssize(invalid_)), format_count(num_lines())));
  }
  for (const std::string& note : notes) log::warn("{}: {}", arguments_.input, note);
}

bool GenerateFile::run(serve::Engine& engine, const cluster::StopListener& stop) {
  const std::string output = path_of_argument(arguments_.output, "/dev/stdout");
  const auto answers = std::make_shared<Answers>(output, settings_, num_lines());
  if (answers->num_done() > 0) {
    log::info("{}: {} of {} lines are complete; going on with the others", arguments_.output,
              format_count(answers->num_done()), format_count(num_lines()));
  }
  const int64_t first_tokens = tokens_of(engine);
  // Enough that the engine never waits for requests.
  constexpr int64_t kWaiting = 64;
  const int64_t most = engine.options().max_num_seqs + kWaiting;
  auto num_failed = std::make_shared<std::atomic<int64_t>>(0);
  for (int64_t index = 0; index < num_lines(); ++index) {
    if (answers->is_done(index)) continue;
    const auto fail = [=, this, &engine](int status, const std::string& message, int64_t running) {
      ++*num_failed;
      answers->put(index, server::failed_batch_line(lines_[index].text, index, status, message),
                   running, tokens_of(engine) - first_tokens);
    };
    if (const auto found = invalid_.find(index); found != invalid_.end()) {
      answers->put(index, server::failed_batch_line(lines_[index].text, index, 400, found->second),
                   0, tokens_of(engine) - first_tokens);
      continue;
    }
    int64_t sequences = 0;
    try {
      const auto line =
          server::read_batch_line(lines_[index].text, index, arguments_.defaults, model_, rules_);
      sequences = line->num_sequences();
      if (!answers->wait(std::max<int64_t>(0, most - sequences), stop)) break;
      answers->begin(sequences);
      line->submit(
          engine, metrics_,
          [=, &engine](const std::string& whole) {
            answers->put(index, whole, sequences, tokens_of(engine) - first_tokens);
          },
          [=, &engine](int status, const std::string& message) {
            // The end of the engine says more.
            if (engine.is_lost()) return answers->end();
            fail(status, message, sequences);
          });
    } catch (const server::ApiError& error) {
      if (engine.is_lost()) break;
      fail(error.status, error.what(), sequences);
    }
  }
  const bool whole = answers->wait(0, stop);
  answers->end();
  if (!whole) return false;
  answers->finish();
  const int64_t failed = *num_failed + std::ssize(invalid_);
  if (failed == 0) return true;
  const std::string message = fmt::format("{} of {} lines have an \"error\" and no answer",
                                          format_count(failed), format_count(num_lines()));
  if (arguments_.invalid == "error") throw Error(message);
  log::warn("{}: {}", arguments_.output, message);
  return true;
}

std::string GenerateFile::describe_stop() const {
  const std::string output = path_of_argument(arguments_.output, "/dev/stdout");
  const auto progress = report::read_batch_progress(output, settings_, num_lines());
  return fmt::format("stopped: {} of {} lines are complete in {}; to go on, use the same command",
                     format_count(progress.num_done()), format_count(num_lines()),
                     arguments_.output);
}

}  // namespace colossal::cli
