// Formats the responses of completion and chat requests as JSON of OpenAI's API.
#pragma once

#include "colossal/server/answer_writer.h"

namespace colossal::server {

// Returns an entry of "tool_calls". call: all of the call, as one delta.
Json whole_call(const CallDelta& call);

// Formats the responses to one request. The request and the model must outlive the object.
class CompletionJson : public AnswerWriter {
 public:
  CompletionJson(const GenerationRequest& request, const ServedModel& model);

  // The overridden functions are described at AnswerWriter.
  const std::string& id() const override { return id_; }
  Json whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) override;
  std::string begin(int64_t index, const TokenCounts& counts) override;
  std::string part(int64_t index, const AnswerDelta& delta, const Answer& answer,
                   const TokenCounts& counts) override;
  std::string end(const TokenCounts& counts) override;
  std::string error(const ApiError& error) override;

  // Returns the value of "logprobs"; null if none are requested.
  Json logprobs(const std::vector<LoggedToken>& logged) const;
  // Returns the log-probabilities of tokens as a chat has them, also for a request that is no chat:
  // a list of {"token", "logprob", "bytes", "top_logprobs"}.
  Json logged_tokens(const std::vector<LoggedToken>& logged) const;

 private:
  // Returns one entry of "choices" in a response that is not streamed. index: position of the
  // entry. all: the whole answer, as one delta. finish_reason: Answer::finish_reason(), such as
  // "stop".
  Json choice(int64_t index, const AnswerDelta& all, const char* finish_reason) const;
  // Returns the "prompt_logprobs" of a choice: a list with one entry for each token of the prompt.
  // An entry has the log-probability, rank and text of this token and of the most likely tokens;
  // null for the first token.
  Json prompt_logprobs(const Answer& answer) const;
  // Returns the event for what was added to an answer since its last event. finish_reason: null
  // until the answer ends.
  Json event(int64_t index, const AnswerDelta& delta, const char* finish_reason) const;
  // Returns the value of "usage".
  static Json usage(const TokenCounts& counts);
  // Returns the fields that all responses begin with: id, object, created, model. streams: for an
  // event.
  Json envelope(bool streams) const;
  // Returns an event with one choice.
  Json event_of(Json choice) const;
  bool is_chat() const { return request_.kind == GenerationRequest::Kind::chat; }
  Json text_logprobs(const std::vector<LoggedToken>& logged) const;
  // Returns how log-probabilities name a token: its text, or "token_id:17" if requested.
  // show_bytes: write a token that is not valid UTF-8 as "bytes:\x..".
  std::string token_text(int32_t token, bool show_bytes) const;
  // Returns an entry of the log-probabilities of a chat.
  Json chat_token(int32_t token, double logprob) const;

  const GenerationRequest& request_;
  const ServedModel& model_;
  std::string id_;
  int64_t created_;  // in seconds since 1970
};

}  // namespace colossal::server
