// Runs a completion or chat request from its submission to the last byte of its response.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/answer.h"
#include "colossal/server/api_error.h"
#include "colossal/server/completion_json.h"
#include "colossal/server/http_server.h"
#include "colossal/server/metrics.h"

namespace colossal::server {

// Return errors to send. busy(): status 429, for a full queue. failure(): status 503 if the engine
// cancelled a request because the server stops, 500 if the request failed.
ApiError busy();
ApiError failure(serve::FinishReason reason, const std::string& message);

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  Completion(GenerationRequest request, const ServedModel& model, serve::Engine& engine,
             Metrics& metrics, std::shared_ptr<Reply> reply);

  // Submits all prompts to the engine. The engine calls back on its own thread, and the callbacks
  // keep this object alive. Throws ApiError 429 if the queue is full, 503 if the engine has lost a
  // rank, 400 if the engine rejects a prompt; in these cases, cancels all prompts.
  void start();
  // Called when the client has disconnected: cancels all prompts.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;

  // Called on the engine's thread. which: index of the answer in answers_; in beam search, of the
  // prompt's first answer.
  void take_prompt(size_t which, const std::vector<std::optional<serve::GeneratedToken>>& tokens);
  bool take_token(size_t which, const serve::GeneratedToken& token);
  // The n best texts become answers_[first] to answers_[first + n - 1].
  void take_beams(size_t first, const std::vector<serve::BeamText>& texts);
  void finish(size_t which, serve::FinishReason reason, const serve::Usage& usage,
              const std::string& error);
  void finish_answer(size_t which, serve::FinishReason reason, const serve::Usage& usage);
  bool is_beam_search() const { return request_.beams.width > 1; }

  serve::Request engine_request(size_t which);
  void submit_all();
  void cancel_all();
  void write_delta(size_t which);
  void write_event(const Json& event);
  void finish_all();
  void finish_stream();
  void fail(const ApiError& error);
  TokenCounts counts() const;
  size_t prompt_of(size_t which) const { return which / static_cast<size_t>(request_.best_of); }
  std::vector<size_t> best_answers() const;
  void log_end(const char* outcome) const;

  const GenerationRequest request_;
  const ServedModel& model_;
  serve::Engine& engine_;
  Metrics& metrics_;
  std::shared_ptr<Reply> reply_;
  CompletionJson json_;
  std::vector<Answer> answers_;  // best_of answers per prompt
  const Clock::time_point start_ = Clock::now();
  std::vector<Clock::time_point> last_token_;      // time of the last token of each answer
  std::vector<serve::FinishReason> beam_reasons_;  // finish reason of each answer, in beam search

  std::mutex mutex_;
  std::vector<serve::RequestId> ids_;
  size_t num_finished_ = 0;
  // False: events are held back, because an exception in start() becomes an error response, which
  // cannot follow events of a stream.
  bool submitted_ = false;
  bool over_ = false;  // completed, rejected, failed or abandoned: nothing more is sent
  std::vector<std::string> held_events_;  // events held back until submitted_
};

}  // namespace colossal::server
