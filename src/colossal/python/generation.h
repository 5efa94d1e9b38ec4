// Work that a LanguageModel does for one call of Python: generated texts, embeddings or labels. The
// engine's thread adds what it makes; the caller's thread takes it, waiting in between. No callback
// enters Python, so that the engine never waits for Python's lock.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/server/answer_writer.h"
#include "colossal/server/http_server.h"

namespace colossal::python {

// A whole answer or, in a stream, what was added to one.
struct AnswerPart {
  int64_t index = 0;  // of the answer: answers of a prompt follow each other
  server::AnswerDelta added;
  // Set in a whole answer and in the last part of a stream.
  std::string finish_reason;  // "stop", "length" or "tool_calls"; "": the answer goes on
  std::string stop_string;    // that ended the answer; "": none did
  int64_t cached_tokens = 0;  // of the prompt: found in the prefix cache
  double beam_score = 0;
  // In a whole answer: the tokens of its prompt and, if asked for, their log-probabilities.
  std::vector<int32_t> prompt;
  std::vector<std::optional<serve::GeneratedToken>> prompt_logprobs;
};

// Thread-safe.
class Generation {
 public:
  // For the engine's side: add results, or end the work with an error. status: as of HTTP.
  // answer: JSON, of work that ends with a single one.
  void add(AnswerPart part);
  void add(std::vector<float> embedding);
  void finish(std::string answer = {});
  void fail(int status, std::string message);
  // Sets what cancel() calls.
  void on_cancel(std::function<void()> action);

  // Waits until there is something to take, the work is finished, or `seconds` have passed.
  void wait(double seconds);
  // Return what was added since the last call, or the answer of finish(). Throw ConfigError if the
  // request was wrong, and Error if the engine failed.
  std::vector<AnswerPart> take_parts();
  std::vector<std::vector<float>> take_embeddings();
  std::string take_answer();
  // Returns whether nothing more will be added.
  bool finished() const;
  // Ends the work. Nothing more is added.
  void cancel();

 private:
  void throw_failure() const;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<AnswerPart> parts_;
  std::vector<std::vector<float>> embeddings_;
  std::string answer_;
  bool finished_ = false;
  int status_ = 0;  // 0: no failure
  std::string failure_;
  std::function<void()> cancel_;
};

// The reply to a request of the server's API, whose answers the writer below has given to
// `generation`.
std::shared_ptr<server::Reply> make_reply(std::shared_ptr<Generation> generation);
// Gives the answers to `generation`.
std::unique_ptr<server::AnswerWriter> make_writer(std::shared_ptr<Generation> generation);

}  // namespace colossal::python
