// Completes the prompts of a file, many at once.
#pragma once

#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/served_model.h"

namespace colossal::cli {

struct GenerateFile {
  std::string input, output;  // lines of JSON
  serve::Request request;     // of every line, but for its prompt; line i draws by seed + i
  std::vector<std::string> stop;
};

// Each line {"prompt": "..."} or {"messages": [...]} of the input is written to the output, in the
// same order, with "completion", "completion_tokens", "finish_reason" and, if the request asks,
// "logprobs"; in beam search also "beams", all texts with their scores. Shows its progress on
// stderr. Throws ConfigError, naming file and line, for an invalid prompt; Error where a request
// fails.
void generate_file(serve::Engine& engine, const server::ServedModel& model,
                   const GenerateFile& what);

// How many lines of the file hold a prompt.
int64_t count_prompts(const std::string& input);

}  // namespace colossal::cli
