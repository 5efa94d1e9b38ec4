// One answer to a prompt while it is generated: converts tokens to text, ends it at a stop string,
// and finds tool calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/server/generation_request.h"
#include "colossal/text/streaming_decoder.h"

namespace colossal::server {

// A token with its log-probability, the most likely alternatives, and the position of its text.
struct LoggedToken {
  // nullopt for the first token of a prompt, which has no log-probability
  std::optional<serve::GeneratedToken> token;
  int32_t id = 0;
  int64_t offset = 0;  // where its text begins, in characters of the answer
};

// What a stream adds to a tool call.
struct CallDelta {
  size_t index = 0;                 // number of the call in the answer
  std::string id;                   // set only in the first part of a call
  std::optional<std::string> name;  // set only in the first part of a call
  std::string arguments;
};

// What was added to an answer since the last take_delta().
struct AnswerDelta {
  std::string text;
  std::vector<CallDelta> calls;
  std::vector<LoggedToken> logged;  // only if log-probabilities are requested
  std::vector<int32_t> tokens;      // only if token ids are requested
  bool empty() const { return text.empty() && calls.empty() && logged.empty() && tokens.empty(); }
};

// Not thread-safe. The arguments of the constructor must outlive it.
class Answer {
 public:
  Answer(const GenerationRequest& request, const GenerationRequest::Prompt& prompt,
         const ServedModel& model);

  // Begins the answer with its prompt, for the option `echo`. tokens: log-probabilities of the
  // prompt's tokens (from serve::Request::on_prompt), or empty if none are requested.
  void echo(const std::vector<std::optional<serve::GeneratedToken>>& tokens);
  // Stores the log-probabilities of the prompt's tokens, if requested.
  void take_prompt(std::vector<std::optional<serve::GeneratedToken>> tokens) {
    prompt_logprobs_ = std::move(tokens);
  }
  const std::vector<std::optional<serve::GeneratedToken>>& prompt_logprobs() const {
    return prompt_logprobs_;
  }
  const GenerationRequest::Prompt& prompt() const { return prompt_; }
  // Mean log-probability of the generated tokens, if requested: the score by which `best_of`
  // chooses.
  double mean_logprob() const {
    return num_tokens_ > 0 ? sum_of_logprobs_ / static_cast<double>(num_tokens_) : 0;
  }
  // Adds a generated token. Returns false if the answer is complete, because a stop string was
  // found, or because a tool call ended and the request allows only one.
  bool take(const serve::GeneratedToken& token);
  // Ends the answer. Text that was held back because a stop string might follow becomes part of it.
  void finish(serve::FinishReason reason, const serve::Usage& usage);

  bool finished() const { return reason_.has_value(); }
  // "stop", "length" or "tool_calls"; valid after finish().
  const char* finish_reason() const;
  const serve::Usage& usage() const { return usage_; }
  int64_t num_tokens() const { return num_tokens_; }
  AnswerDelta take_delta();
  // For streams: like take_delta(), but returns an empty delta until there is text, a tool call or
  // the end, so that log-probabilities are sent with the text they belong to.
  AnswerDelta take_delta_if_text();

  bool role_sent = false;  // in a chat stream: first_event() has been sent

 private:
  void append(std::string_view text);
  void give(std::string text);
  void give(text::ParsedText parsed);
  void log(std::optional<serve::GeneratedToken> token, int32_t id);

  const GenerationRequest& request_;
  const GenerationRequest::Prompt& prompt_;
  const ServedModel& model_;
  text::StreamingDecoder decoder_;
  serve::StopStrings stop_;
  text::ToolCallParser calls_;
  AnswerDelta delta_;
  int64_t length_ = 0;  // characters so far, held-back text included
  int64_t num_tokens_ = 0;
  double sum_of_logprobs_ = 0;
  std::vector<std::optional<serve::GeneratedToken>> prompt_logprobs_;
  std::optional<serve::FinishReason> reason_;
  serve::Usage usage_;
};

}  // namespace colossal::server
