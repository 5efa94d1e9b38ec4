// The interface of the classes that format responses to generation requests, one for each API.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/server/answer.h"
#include "colossal/server/api_error.h"
#include "colossal/server/http_server.h"
#include "colossal/server/json_body.h"

namespace colossal::server {

// Numbers of tokens in a response.
struct TokenCounts {
  // prompt: of all prompts. cached: tokens of prompts that were found in the prefix cache; 0 until
  // the answers are complete. completion: of all answers. reasoning: those of `completion` that
  // are reasoning.
  int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
};

// A complete answer.
struct WholeAnswer {
  AnswerDelta all;  // all of the answer
  const Answer& answer;
};

// Formats the response to one request, whole or as a stream. A stream has, for each answer,
// begin() and then any number of parts; and at last end() or error(). Not thread-safe.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Returns the id of the response.
  virtual const std::string& id() const = 0;
  // Returns a response that is not streamed. answers: those to send, best first.
  virtual Json whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) = 0;

  // Returns the content type of a stream.
  virtual std::string_view content_type() const { return kEventStream; }
  // The following functions return the next bytes of a stream. index: of the answer.
  //
  // Begins an answer.
  virtual std::string begin(int64_t index, const TokenCounts& counts) = 0;
  // Writes what was added to an answer. If answer.finished(), this is its last part.
  virtual std::string part(int64_t index, const AnswerDelta& delta, const Answer& answer,
                           const TokenCounts& counts) = 0;
  // Ends the stream after the last parts of all answers.
  virtual std::string end(const TokenCounts& counts) = 0;
  // Ends a stream that has failed.
  virtual std::string error(const ApiError& error) = 0;
};

// Returns a server-sent event. name: the event's type; "": none.
std::string server_sent_event(std::string_view data, std::string_view name = {});
// Returns a random id that begins with `prefix`.
std::string random_id(std::string_view prefix);
// Returns the time in seconds since 1970.
int64_t seconds_since_1970();
// Returns a time in UTC as RFC 3339 writes it, such as "2026-01-31T12:00:00Z".
std::string utc_time(int64_t seconds_since_1970);

}  // namespace colossal::server
