// Formats responses as JSON of the OpenAI API.
#pragma once

#include "colossal/server/answer.h"

namespace colossal::server {

// Number of tokens in a response: of all prompts, of the parts of prompts found in the prefix
// cache, and of all answers.
struct TokenCounts {
  int64_t prompt = 0, cached = 0, completion = 0;
};

// The request and the model must outlive it.
class CompletionJson {
 public:
  CompletionJson(const GenerationRequest& request, const ServedModel& model);

  const std::string& id() const { return id_; }
  // choice(): returns one answer of a response that is not streamed. whole(): returns such a
  // response with its choices.
  Json choice(int64_t index, const AnswerDelta& all, const char* finish_reason) const;
  // Returns a list with one entry for each token of the answer's prompt: log-probability, rank and
  // text of this token and of the most likely tokens; null for the first token.
  Json prompt_logprobs(const Answer& answer) const;
  Json whole(std::vector<Json> choices, const TokenCounts& counts) const;

  // Events of a streamed response. finish_reason: null until the answer ends.
  Json first_event(int64_t index) const;  // in a chat: the role
  Json event(int64_t index, const AnswerDelta& delta, const char* finish_reason) const;
  Json usage_event(const TokenCounts& counts) const;

  static Json usage(const TokenCounts& counts);

 private:
  Json envelope(bool streams) const;
  Json event_of(Json choice) const;
  bool is_chat() const { return request_.kind == GenerationRequest::Kind::chat; }
  Json logprobs(const std::vector<LoggedToken>& logged) const;
  Json text_logprobs(const std::vector<LoggedToken>& logged) const;
  Json chat_logprobs(const std::vector<LoggedToken>& logged) const;
  std::string token_text(int32_t token, bool show_bytes) const;
  Json chat_token(int32_t token, double logprob) const;

  const GenerationRequest& request_;
  const ServedModel& model_;
  std::string id_;
  int64_t created_;
};

}  // namespace colossal::server
