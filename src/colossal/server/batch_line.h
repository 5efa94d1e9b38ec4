// A line of a batch file (`colossal generate --input`): reads it as a request, and answers it with
// a line of the output. There are two forms of lines:
//
// - {"prompt": "..."} or {"messages": [...]}, with further fields as in a request to the server.
// The
//   output repeats the line and adds "completion", "completion_tokens", "finish_reason" and, if
//   they are asked for or found, "logprobs", "beams" and "tool_calls"; or "error". A field of the
//   line that has one of these names is kept as "input_NAME".
// - OpenAI's form, {"custom_id": "...", "method": "POST", "url": "/v1/chat/completions", "body":
//   {...}}, also with /v1/completions and /v1/embeddings. The output is {"id", "custom_id",
//   "response": {"status_code", "request_id", "body"}, "error"}.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/json_body.h"
#include "colossal/server/metrics.h"
#include "colossal/server/served_model.h"
#include "colossal/server/text_constraint.h"

namespace colossal::server {

// What applies to lines that do not say it themselves. How texts are generated is what
// ServedModel::generation() says; an answer has at most 100 tokens if that says nothing, and in
// OpenAI's form what the server's routes have.
struct BatchDefaults {
  uint64_t seed = 0;      // line i (from 0) is answered with the seed `seed` + i
  int64_t logprobs = -1;  // serve::Request::logprobs; not used in OpenAI's form
  // Whether a prompt that is too long keeps its last tokens only, so that the answer has room.
  bool truncate = false;
  bool shows_special = false;  // whether special tokens in answers are written
};

// A valid line.
class BatchLine {
 public:
  virtual ~BatchLine() = default;
  // Submits the line's requests to the engine. done: called once, on the engine's thread or before
  // submit() returns, with the line of the output, without a line break. failed: called instead if
  // there is no answer, with an HTTP status and a message for failed_batch_line(). Throws ApiError
  // if the engine refuses the requests.
  using Done = std::function<void(std::string line)>;
  using Failed = std::function<void(int status, std::string message)>;
  virtual void submit(serve::Engine& engine, Metrics& metrics, Done done, Failed failed) = 0;
  // Returns the number of sequences that submit() gives to the engine.
  virtual int64_t num_sequences() const = 0;
  // What the user should know about fields of the line: about those that nothing reads, and those
  // whose name changes.
  const std::vector<std::string>& notes() const { return notes_; }

 protected:
  std::vector<std::string> notes_;
};

// Reads the line number `index` (from 0) of a batch file. model, rules: must outlive the result.
// Throws ApiError, which names the field, for a line that cannot be answered.
std::shared_ptr<BatchLine> read_batch_line(const std::string& line, int64_t index,
                                           const BatchDefaults& defaults, const ServedModel& model,
                                           RuleCache& rules);

// Returns `line` with the fields of `added`, as a line of an output. A field of `line` that has the
// name of an added one is kept as "input_NAME".
std::string repeat_line(const Json& line, const Json& added);

// Returns the line of the output for a line that cannot be answered. status: of HTTP.
std::string failed_batch_line(const std::string& line, int64_t index, int status,
                              const std::string& message);

}  // namespace colossal::server
