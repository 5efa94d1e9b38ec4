// One answer to a prompt during generation: converts tokens to text, up to a stop string, and finds
// tool calls.
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
  std::optional<serve::GeneratedToken>
      token;  // nullopt for the first token of a prompt, which has no log-probability
  int32_t id = 0;
  int64_t offset = 0;  // in characters from the start of the answer's text
};

// A streamed part of a tool call.
struct CallDelta {
  size_t index = 0;
  std::string id;                   // set only in the first part of a call
  std::optional<std::string> name;  // set only in the first part of a call
  std::string arguments;
};

// Output added since the last take_delta().
struct AnswerDelta {
  std::string text;
  std::vector<CallDelta> calls;
  std::vector<LoggedToken> logged;  // only if log-probabilities are requested
  std::vector<int32_t> tokens;
  bool empty() const { return text.empty() && calls.empty() && logged.empty() && tokens.empty(); }
};

class Answer {
 public:
  Answer(const GenerationRequest& request, const GenerationRequest::Prompt& prompt,
         const ServedModel& model);

  // Prepends the prompt to the answer, for `echo`. tokens: log-probabilities of the prompt's tokens
  // (serve::Request::on_prompt), or empty if none are requested.
  void echo(const std::vector<std::optional<serve::GeneratedToken>>& tokens);
  // Stores the log-probabilities of the prompt's tokens, if requested.
  void take_prompt(std::vector<std::optional<serve::GeneratedToken>> tokens) {
    prompt_logprobs_ = std::move(tokens);
  }
  const std::vector<std::optional<serve::GeneratedToken>>& prompt_logprobs() const {
    return prompt_logprobs_;
  }
  const GenerationRequest::Prompt& prompt() const { return prompt_; }
  // Mean log-probability of the generated tokens, if requested; used to rank `best_of` answers.
  double mean_logprob() const {
    return num_tokens_ > 0 ? sum_of_logprobs_ / static_cast<double>(num_tokens_) : 0;
  }
  // Adds a generated token. Returns false if the answer is complete: a stop string was found, or a
  // tool call ended and parallel calls are off.
  bool take(const serve::GeneratedToken& token);
  // Ends the answer and emits text that was held back for stop strings.
  void finish(serve::FinishReason reason, const serve::Usage& usage);

  bool finished() const { return reason_.has_value(); }
  const char* finish_reason() const;  // "stop", "length", "tool_calls"
  const serve::Usage& usage() const { return usage_; }
  int64_t num_tokens() const { return num_tokens_; }
  AnswerDelta take_delta();
  // For streams: returns an empty delta until there is text, a tool call or the end, so that
  // log-probabilities are sent together with their text.
  AnswerDelta take_delta_if_text();

  bool introduced = false;  // in a chat stream: the event with the role has been sent

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
