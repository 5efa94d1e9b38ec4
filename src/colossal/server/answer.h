// One answer to a prompt while the engine generates it: converts tokens to text, ends the text at a
// stop string, and finds reasoning and tool calls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/serve/stop_strings.h"
#include "colossal/server/generation_request.h"
#include "colossal/text/answer/answer_parser.h"
#include "colossal/text/tokenizer/streaming_decoder.h"

namespace colossal::server {

// A token of the answer with what the response says about its log-probability.
struct LoggedToken {
  // Log-probability and the most likely alternatives; nullopt for the first token of a prompt,
  // which has no log-probability.
  std::optional<serve::GeneratedToken> token;
  int32_t id = 0;      // token id
  int64_t offset = 0;  // where the token's text begins, in characters of the answer
};

// What was added to one tool call.
struct CallDelta {
  size_t index = 0;                 // index of the call in the answer
  std::string id;                   // identifies the call in the API; set only when the call begins
  std::optional<std::string> name;  // name of the tool; set only when the call begins
  std::string arguments;            // the next part of the JSON text of the arguments
};

// What was added to an answer since the last take_delta().
struct AnswerDelta {
  std::string reasoning;  // what the model wrote for itself; only in a chat
  std::string text;       // text outside of reasoning and tool calls
  std::vector<CallDelta> calls;
  std::vector<LoggedToken> logged;  // only if log-probabilities are requested
  std::vector<int32_t> tokens;      // only if token ids are requested
  // Returns whether there is nothing that a reader of the answer would see.
  bool has_text() const { return !reasoning.empty() || !text.empty() || !calls.empty(); }
  bool empty() const { return !has_text() && logged.empty() && tokens.empty(); }
};

// Collects the tokens of one answer. Not thread-safe. The arguments of the constructor must outlive
// the answer.
class Answer {
 public:
  Answer(const GenerationRequest& request, const GenerationRequest::Prompt& prompt,
         const ServedModel& model);

  // Begins the answer with the text of its prompt, for the option `echo`. tokens: log-probabilities
  // of the prompt's tokens, as serve::Request::on_prompt receives them; empty if none are
  // requested.
  void echo(const std::vector<std::optional<serve::GeneratedToken>>& tokens);
  // Stores the log-probabilities of the prompt's tokens, for the option `prompt_logprobs`. tokens:
  // one entry for each token; nullopt for the first.
  void take_prompt(std::vector<std::optional<serve::GeneratedToken>> tokens) {
    prompt_logprobs_ = std::move(tokens);
  }
  const std::vector<std::optional<serve::GeneratedToken>>& prompt_logprobs() const {
    return prompt_logprobs_;
  }
  const GenerationRequest::Prompt& prompt() const { return prompt_; }
  // Returns the mean log-probability of the generated tokens, by which `best_of` ranks answers.
  // Returns 0 if there are no tokens, or if the engine computes no log-probabilities. If best_of >
  // n, the engine computes them even if the client does not request them.
  double mean_logprob() const {
    return num_tokens_ > 0 ? sum_of_logprobs_ / static_cast<double>(num_tokens_) : 0;
  }
  // Adds a generated token. Returns false if the answer is complete: a stop string was found, or a
  // tool call has ended and the request allows only one.
  bool take(const serve::GeneratedToken& token);
  // Ends the answer. Text that was held back, because it might have begun a stop string or a tool
  // call, is added to the answer. reason: why the engine ended the request.
  void finish(serve::FinishReason reason, const serve::Usage& usage);

  bool finished() const { return reason_.has_value(); }
  // Returns "length" if the engine ended with FinishReason::length and no stop string was found;
  // else "tool_calls" ("function_call" for ToolRequest::are_functions) if the answer has calls and
  // the request does not name the tool to call; else "stop". Call after finish().
  const char* finish_reason() const;
  // The score of the text in beam search (serve::BeamText); 0 otherwise.
  double beam_score() const { return beam_score_; }
  void set_beam_score(double score) { beam_score_ = score; }
  bool has_calls() const { return parser_.num_calls() > 0; }
  // Returns the stop string that ended the answer; "" if none did.
  const std::string& stop_string() const { return stop_.string(); }
  // Returns the engine's token counts and times. Call after finish().
  const serve::Usage& usage() const { return usage_; }
  // Returns the number of generated tokens, and of those that are reasoning.
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_reasoning_tokens() const { return num_reasoning_tokens_; }
  // Returns what was added since the last call.
  AnswerDelta take_delta();
  // For streams: like take_delta(), but returns an empty delta until there is text, a tool call or
  // the end of the answer. Log-probabilities are thus sent together with the text of their tokens.
  AnswerDelta take_delta_if_text();

  // In a stream: whether AnswerWriter::begin() was sent for this answer. Set by the sender.
  bool begun = false;

 private:
  // Adds decoded text: first to stop_, and what stop_ releases to parser_.
  void append(std::string_view text);
  // Adds text that does not contain a stop string.
  void give(std::string text);
  // Adds reasoning, content and calls to delta_.
  void give(text::ParsedText parsed);
  // Adds a token to delta_.logged, if log-probabilities are requested.
  void log(std::optional<serve::GeneratedToken> token, int32_t id);

  const GenerationRequest& request_;
  const GenerationRequest::Prompt& prompt_;
  const ServedModel& model_;
  text::StreamingDecoder decoder_;
  serve::StopStrings stop_;
  text::AnswerParser parser_;
  AnswerDelta delta_;
  int64_t length_ = 0;  // characters so far, including text that is held back
  int64_t num_tokens_ = 0, num_reasoning_tokens_ = 0;
  double sum_of_logprobs_ = 0;
  double beam_score_ = 0;
  std::vector<std::optional<serve::GeneratedToken>> prompt_logprobs_;
  std::optional<serve::FinishReason> reason_;
  serve::Usage usage_;
};

}  // namespace colossal::server
