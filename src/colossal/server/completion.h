// A request for completions from its submission to its last byte.
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

// The errors if the engine's queue is full, and if it ends a request without finishing it.
ApiError busy();
ApiError failure(serve::FinishReason reason, const std::string& message);

class Completion : public std::enable_shared_from_this<Completion> {
 public:
  Completion(GenerationRequest request, const ServedModel& model, serve::Engine& engine,
             Metrics& metrics, std::shared_ptr<Reply> reply);

  // Hands all prompts to the engine, which answers from its own thread from now on. Throws ApiError
  // 429 where its queue is full, 400 where it refuses a prompt; then none of them runs.
  void start();
  // The client went away: its pages are free within a step.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;

  // On the engine's thread.
  void take_prompt(size_t which, const std::vector<std::optional<serve::GeneratedToken>>& tokens);
  bool take_token(size_t which, const serve::GeneratedToken& token);
  // The n best become the answers from `first` on.
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
  std::vector<Answer> answers_;  // best_of for each prompt
  const Clock::time_point start_ = Clock::now();
  std::vector<Clock::time_point> last_token_;      // of each answer
  std::vector<serve::FinishReason> beam_reasons_;  // of each answer, in beam search

  std::mutex mutex_;
  std::vector<serve::RequestId> ids_;
  size_t num_finished_ = 0;
  bool submitted_ = false;          // events wait for it: a refusal is no stream
  bool over_ = false;               // refused, failed or abandoned: nothing more is said
  std::vector<std::string> early_;  // events from before it was
};

}  // namespace colossal::server
