// The output of a command that works through the lines of a file: a jsonl file with one line for
// each line of the input, in the same order. A process may be killed at any time: the same command
// goes on after the complete lines, and no line that was complete is made again.
//
// Beside OUTPUT there is OUTPUT.progress.jsonl. Its first line has the settings with which the
// lines are made. It is followed by lines that are complete but wait for lines before them, until
// the output is whole. Outputs that are no regular files, such as pipes, have no such file and
// cannot be continued.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/report/output_file.h"

namespace colossal::report {

// What the lines of an output depend on: names for messages, such as "--temperature", and values.
using BatchSettings = std::vector<std::pair<std::string, std::string>>;

// What an output already has.
struct BatchProgress {
  bool can_continue = false;  // whether the output is a regular file, or does not exist yet
  int64_t written = 0;        // complete lines of the output
  int64_t bytes = 0;          // their size
  std::map<int64_t, std::string> ahead{};  // complete lines after a missing line, by their index

  int64_t num_done() const { return written + std::ssize(ahead); }
  bool is_done(int64_t index) const { return index < written || ahead.contains(index); }
};

// Returns the path of OUTPUT.progress.jsonl.
std::filesystem::path batch_progress_file(const std::filesystem::path& output);

// Reads what an output already has, without changing anything. count: number of lines of the input.
// Throws ConfigError if the output was made with other settings, or if it has lines but nothing
// says how they were made. Throws IoError if it cannot be read.
BatchProgress read_batch_progress(const std::filesystem::path& output,
                                  const BatchSettings& settings, int64_t count);

// Throws ConfigError if `output` or its progress file is one of the files `inputs`, also by another
// name (a link, a hard link). flag: name of the option that gives the output, for the message.
void refuse_input_as_output(const std::vector<std::string>& inputs,
                            const std::filesystem::path& output, const std::string& flag);

// Writes an output. Thread-safe.
class BatchOutput {
 public:
  // Opens the output to go on after the lines that it already has; cuts an incomplete last line
  // off. count: number of lines of the input. Throws ConfigError if another process writes this
  // output, and what read_batch_progress() throws.
  BatchOutput(const std::filesystem::path& output, const BatchSettings& settings, int64_t count);

  // Returns whether the line was complete when the output was opened, or was put since.
  bool is_done(int64_t index) const;
  // Adds the line number `index` (from 0) of the output. line: without a line break. Throws
  // IoError.
  void put(int64_t index, const std::string& line);
  // Number of lines that put() has taken, those of earlier processes included.
  int64_t num_done() const;
  // Call when all lines were put: waits until they are on the disk.
  void finish();

 private:
  mutable std::mutex mutex_;                 // guards the members below
  std::string settings_;                     // the first line of the progress file
  std::optional<OutputFile> file_;           // always set after construction
  std::optional<OutputFile> progress_file_;  // nullopt if the output cannot be continued
  BatchProgress progress_;
};

}  // namespace colossal::report
