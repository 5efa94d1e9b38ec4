// One answer to a prompt while it is made: tokens become text, up to a stop string.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/server/generation_request.h"
#include "colossal/text/streaming_decoder.h"

namespace colossal::server {

// A token with its log-probability and those beside it, and where its text begins.
struct LoggedToken {
  std::optional<serve::GeneratedToken>
      token;  // none: the first of a prompt, which nothing precedes
  int32_t id = 0;
  int64_t offset = 0;  // in characters of the answer's text
};

// A part of a call of a tool.
struct CallDelta {
  size_t index = 0;
  std::string id;                   // with the first part of a call; else empty
  std::optional<std::string> name;  // likewise
  std::string arguments;
};

// What was added since the last take_delta().
struct AnswerDelta {
  std::string text;
  std::vector<CallDelta> calls;
  std::vector<LoggedToken> logged;  // where log-probabilities were asked for
  std::vector<int32_t> tokens;
  bool empty() const { return text.empty() && calls.empty() && logged.empty() && tokens.empty(); }
};

class Answer {
 public:
  Answer(const GenerationRequest& request, const GenerationRequest::Prompt& prompt,
         const ServedModel& model);

  // For `echo`: the prompt comes first. tokens: as the engine gives them, or empty without
  // log-probabilities.
  void echo(const std::vector<std::optional<serve::GeneratedToken>>& tokens);
  // Of the prompt's tokens, where they were asked for.
  void take_prompt(std::vector<std::optional<serve::GeneratedToken>> tokens) {
    prompt_logprobs_ = std::move(tokens);
  }
  const std::vector<std::optional<serve::GeneratedToken>>& prompt_logprobs() const {
    return prompt_logprobs_;
  }
  const GenerationRequest::Prompt& prompt() const { return prompt_; }
  // Of its tokens, where their log-probabilities were asked for.
  double mean_logprob() const {
    return num_tokens_ > 0 ? sum_of_logprobs_ / static_cast<double>(num_tokens_) : 0;
  }
  // Adds a token. Returns false if a stop string ended the answer with it, or the end of the only
  // call that is allowed.
  bool take(const serve::GeneratedToken& token);
  // Ends the answer and releases text that was held back.
  void finish(serve::FinishReason reason, const serve::Usage& usage);

  bool finished() const { return reason_.has_value(); }
  const char* finish_reason() const;  // "stop", "length", "tool_calls"
  const serve::Usage& usage() const { return usage_; }
  int64_t num_tokens() const { return num_tokens_; }
  AnswerDelta take_delta();
  // The same for a stream, in which log-probabilities wait for the text that they belong to.
  AnswerDelta take_delta_if_text();

  bool introduced = false;  // in a stream: an event has said who speaks

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
  int64_t length_ = 0;  // characters so far, those held back included
  int64_t num_tokens_ = 0;
  double sum_of_logprobs_ = 0;
  std::vector<std::optional<serve::GeneratedToken>> prompt_logprobs_;
  std::optional<serve::FinishReason> reason_;
  serve::Usage usage_;
};

}  // namespace colossal::server
