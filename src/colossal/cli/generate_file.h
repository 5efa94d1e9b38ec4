// Batch generation: completes the prompts of a file.
#pragma once

#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/served_model.h"

namespace colossal::cli {

struct GenerateFile {
  std::string input, output;  // jsonl files
  // options of all requests; the prompt is set per line, and line i uses sampling.seed + i
  serve::Request request;
  std::vector<std::string> stop;
};

// Reads lines {"prompt": "..."} or {"messages": [...]} from the input and writes each to the
// output, in the same order, with "completion", "completion_tokens", "finish_reason" and, if
// requested, "logprobs" added; in beam search also "beams", all texts with scores. Shows progress
// on stderr. Throws ConfigError, naming file and line, for an invalid prompt; Error if a request
// fails.
void generate_file(serve::Engine& engine, const server::ServedModel& model,
                   const GenerateFile& what);

// Returns the number of prompts of the file. Throws ConfigError, naming file and line, for an
// invalid line.
int64_t count_prompts(const std::string& input);

}  // namespace colossal::cli
