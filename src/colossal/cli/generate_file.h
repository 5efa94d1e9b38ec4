// Batch generation: answers the lines of a jsonl file (`colossal generate --input`).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "colossal/cluster/stop_listener.h"
#include "colossal/report/batch_output.h"
#include "colossal/serve/engine.h"
#include "colossal/server/batch_line.h"
#include "colossal/server/metrics.h"
#include "colossal/server/served_model.h"

namespace colossal::cli {

// The arguments of a GenerateFile.
struct GenerateFileArguments {
  std::string input, output;  // paths of jsonl files; "-": stdin, stdout
  // What happens to invalid lines: error: none is answered; skip: they get an "error" in the
  // output.
  std::string invalid = "error";
  server::BatchDefaults defaults;
};

// Returns the path that an argument names: "-" is `standard`.
std::string path_of_argument(const std::string& given, const std::string& standard);

// A file of lines to be answered (server/batch_line.h), and the file of answers, which the same
// command continues after a stop or a failure (report/batch_output.h).
class GenerateFile {
 public:
  // Reads the input, and checks all its lines and what the output already has. Changes nothing.
  // model: must outlive the object. settings: what the answers depend on, besides the arguments and
  // the input. Throws ConfigError naming file and line for invalid lines, if they are not skipped;
  // if the output is the input, or has lines that were made otherwise. Throws IoError.
  GenerateFile(const GenerateFileArguments& arguments, const server::ServedModel& model,
               report::BatchSettings settings);

  // Returns the number of lines, blank ones not counted.
  int64_t num_lines() const { return std::ssize(lines_); }

  // Returns the number of sequences of the engine that the answers to all lines take.
  int64_t num_sequences() const { return num_sequences_; }

  // Returns whether the output has all lines already.
  bool is_whole() const { return num_lines() > 0 && progress_.num_done() == num_lines(); }

  // Answers the lines that the output lacks, in the order of the input, and shows progress on
  // stderr. The object must outlive the engine. Returns false if `stop` was asked for before the
  // last line; the engine may still work then. Throws IoError if a line cannot be written,
  // CommError if a rank is lost, and Error at the end if lines got an "error" that check() did not
  // find.
  bool run(serve::Engine& engine, const cluster::StopListener& stop);

  // Returns what to say when run() was stopped: how much is done and how to go on.
  std::string describe_stop() const;
  // Returns whether the same command goes on after a stop.
  bool can_continue() const { return progress_.can_continue; }

 private:
  struct Line {
    int64_t number = 0;  // in the input, from 1
    std::string text;
  };
  class Answers;

  // Reads each line as a request; sets invalid_ and num_sequences_.
  void check_lines();
  std::string place(int64_t index) const;

  const GenerateFileArguments arguments_;
  const server::ServedModel& model_;
  std::vector<Line> lines_;
  report::BatchSettings settings_;
  report::BatchProgress progress_;
  std::map<int64_t, std::string> invalid_;  // by index: why the line cannot be answered
  int64_t num_sequences_ = 0;
  server::RuleCache rules_;
  server::Metrics metrics_;
};

}  // namespace colossal::cli
