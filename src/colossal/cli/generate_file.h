// Batch generation: completes the prompts of a file.
#pragma once

#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/served_model.h"

namespace colossal::cli {

struct GenerateFile {
  std::string input, output;  // jsonl files
  // Options of all requests, except the prompt. The answer to prompt i (from 0) is drawn with the
  // seed sampling.seed + i.
  serve::Request request;
  std::vector<std::string> stop;  // stop strings
};

// Reads lines {"prompt": "..."} or {"messages": [...]} from the input; skips blank lines. Writes
// each line to the output, in the same order, with the fields "completion", "completion_tokens",
// "finish_reason" and, if requested, "logprobs" added; in beam search also "beams", all texts with
// scores. Shows progress on stderr. Throws ConfigError, which names file and line, for an invalid
// prompt; Error if a request fails; IoError.
void generate_file(serve::Engine& engine, const server::ServedModel& model,
                   const GenerateFile& what);

// Returns the number of prompts in the file. Throws ConfigError, which names file and line, for an
// invalid line; IoError if the file cannot be read.
int64_t count_prompts(const std::string& input);

}  // namespace colossal::cli
