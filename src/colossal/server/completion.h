// Runs a generation request of any API from its submission to the engine to the last byte of its
// response. Api creates one Completion for each request.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/answer.h"
#include "colossal/server/answer_writer.h"
#include "colossal/server/api_error.h"
#include "colossal/server/http_server.h"
#include "colossal/server/metrics.h"

namespace colossal::server {

// Return errors to send. busy(): status 429, for a full queue. failure(): for an engine request
// that ended with `reason`; status 503 if the engine cancelled it because the server stops, else
// 500 with `message`.
ApiError busy();
ApiError failure(serve::FinishReason reason, const std::string& message);

// Owns the answers of one request. The callbacks that it passes to the engine keep it alive. Must
// be owned by a std::shared_ptr.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  // writer: formats the response; it may refer to `request`. model, engine, metrics: must outlive
  // the object.
  Completion(std::shared_ptr<const GenerationRequest> request, std::unique_ptr<AnswerWriter> writer,
             const ServedModel& model, serve::Engine& engine, Metrics& metrics,
             std::shared_ptr<Reply> reply);

  // Submits all prompts to the engine, which calls back on the engine's thread. Call once, on the
  // server's thread, before the handler of the request returns: start() calls
  // Reply::on_abandoned(), which is allowed only until then. Throws ApiError 429 if the queue is
  // full, 503 if the engine has lost a rank, 400 if the engine rejects a prompt. If it throws, all
  // prompts are cancelled. If the request has a rule that is not compiled yet, the prompts are
  // submitted later, on the thread that compiles it, and errors are sent.
  void start();
  // Cancels all prompts. start() registers this function with Reply::on_abandoned(), so that the
  // server calls it if the connection is closed before the response is complete.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;

  // The callbacks of the engine, called on the engine's thread. which: index in answers_. In beam
  // search, the engine passes the index of the prompt's first answer and calls take_beams() instead
  // of take_token(); take_beams() then calls take_token() for each answer. take_prompt() gets the
  // log-probabilities of the prompt's tokens; nullopt for the first token. take_token() returns
  // false to end the answer.
  void take_prompt(size_t which, const std::vector<std::optional<serve::GeneratedToken>>& tokens);
  bool take_token(size_t which, const serve::GeneratedToken& token);
  // Takes the result of a beam search, best text first. The n best texts become answers_[first] to
  // answers_[first + n - 1].
  void take_beams(size_t first, const std::vector<serve::BeamText>& texts);
  // Called when an engine request has ended: one answer, or in beam search the n answers of a
  // prompt.
  void finish(size_t which, serve::FinishReason reason, const serve::Usage& usage,
              const std::string& error);
  void finish_answer(size_t which, serve::FinishReason reason, const serve::Usage& usage);
  bool is_beam_search() const { return request_.beams.width > 1; }

  // Returns the request to the engine for answers_[which].
  serve::Request engine_request(size_t which);
  // Submits all prompts once the request's rule is compiled. Throws as start() does.
  void submit_all();
  void submit_each();
  // Calls submit_all() and sends events that were held back. Sends an error instead of throwing it.
  void submit_compiled();
  void begin_events();
  void cancel_all();
  // Sends, as a part of the stream, what was added to answers_[which].
  void write_delta(size_t which);
  // Sends a part of the stream; before `submitted_`, adds it to held_parts_ instead.
  void write_part(const std::string& part);
  // Sends the response, or the end of the stream, when all answers are complete.
  void finish_all();
  // Sends an error and cancels all prompts.
  void fail(const ApiError& error);
  TokenCounts counts() const;
  // Returns the index of the prompt of answers_[which].
  size_t prompt_of(size_t which) const { return which / static_cast<size_t>(request_.best_of); }
  // Returns the indices of the answers to send: n of each prompt. If best_of > n, these are the n
  // answers with the highest mean log-probability, best first.
  std::vector<size_t> best_answers() const;
  // Logs the end of the request with its token counts.
  void log_end(const char* outcome) const;

  const std::shared_ptr<const GenerationRequest> owned_request_;
  const GenerationRequest& request_ = *owned_request_;
  const std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<CompiledRule> rule_;  // of the request, compiled; null: none
  const ServedModel& model_;
  serve::Engine& engine_;
  Metrics& metrics_;
  std::shared_ptr<Reply> reply_;
  // best_of answers for each prompt, in order of the prompts. In beam search, best_of equals n
  // (GenerationRequest).
  std::vector<Answer> answers_;
  const Clock::time_point start_ = Clock::now();
  // By answer: when its last token came.
  std::vector<Clock::time_point> last_token_;
  // By answer, in beam search: why its text ended.
  std::vector<serve::FinishReason> beam_reasons_;

  std::mutex mutex_;                   // guards answers_, last_token_ and the members below
  std::vector<serve::RequestId> ids_;  // of the submitted engine requests
  size_t num_finished_ = 0;            // complete answers
  // start() has submitted all prompts. Until then parts of a stream are held back: if start()
  // throws, an error response is sent, which cannot follow a stream.
  bool submitted_ = false;
  bool streaming_ = false;  // the header of the stream was sent
  // The request is completed, rejected, failed or abandoned: nothing more is sent.
  bool over_ = false;
  std::string held_parts_;  // of the stream, to send once submitted_
};

}  // namespace colossal::server
