#include "colossal/server/answer.h"

#include <algorithm>
#include <random>

namespace colossal::server {
namespace {

int64_t num_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

// Returns an id for a tool call: nine letters and digits, as Mistral's chat templates require.
std::string call_id() {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string id;
  while (id.size() < 9) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace

Answer::Answer(const GenerationRequest& request, const GenerationRequest::Prompt& prompt,
               const ServedModel& model)
    : request_(request),
      prompt_(prompt),
      model_(model),
      decoder_(model.tokenizer(), model.reads_prompts()
                                      ? text::StreamingDecoder::Begins::with_text
                                      : text::StreamingDecoder::Begins::after_prompt),
      stop_(request.stop, request.include_stop),
      calls_(request.tools.form(model.tool_call_form()), request.tools.name) {}

void Answer::log(std::optional<serve::GeneratedToken> token, int32_t id) {
  if (request_.logprobs >= 0) delta_.logged.push_back({std::move(token), id, length_});
}

void Answer::echo(const std::vector<std::optional<serve::GeneratedToken>>& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::optional<serve::GeneratedToken> token = tokens[i];
    if (token && std::ssize(token->top) > request_.logprobs) token->top.resize(request_.logprobs);
    log(std::move(token), prompt_.tokens[i]);
    length_ += num_characters(model_.bytes_of(prompt_.tokens[i]));
  }
  delta_.text += prompt_.text;
  length_ = num_characters(prompt_.text);
}

void Answer::append(std::string_view text) {
  length_ += num_characters(text);
  give(stop_.push(text));
}

void Answer::give(std::string text) {
  give(calls_.push(text));
}

void Answer::give(text::ParsedText parsed) {
  delta_.text += parsed.content;
  for (text::ToolCallDelta& call : parsed.calls) {
    if (call.name) {
      delta_.calls.push_back({.index = call.call, .id = call_id(), .name = std::move(call.name)});
    } else if (delta_.calls.empty() || delta_.calls.back().index != call.call) {
      delta_.calls.push_back({.index = call.call});
    }
    delta_.calls.back().arguments += call.arguments;
  }
}

bool Answer::take(const serve::GeneratedToken& token) {
  ++num_tokens_;
  sum_of_logprobs_ += token.logprob;
  log(token, token.token);
  if (request_.return_token_ids) delta_.tokens.push_back(token.token);
  const bool marks_call =
      request_.tools.choice == ToolRequest::Choice::automatic && model_.is_call_marker(token.token);
  if (request_.skip_special_tokens && model_.is_special(token.token) && !marks_call) return true;
  append(decoder_.push(token.token));
  return !stop_.found() && (request_.tools.parallel || calls_.num_whole_calls() == 0);
}

void Answer::finish(serve::FinishReason reason, const serve::Usage& usage) {
  if (!stop_.found()) append(decoder_.flush());
  give(stop_.flush());
  give(calls_.finish());
  reason_ = stop_.found() ? serve::FinishReason::stop : reason;
  usage_ = usage;
}

const char* Answer::finish_reason() const {
  if (reason_ == serve::FinishReason::length) return "length";
  const bool decided = request_.tools.choice != ToolRequest::Choice::named;
  return decided && calls_.num_calls() > 0 ? "tool_calls" : "stop";
}

AnswerDelta Answer::take_delta() {
  return std::exchange(delta_, {});
}

AnswerDelta Answer::take_delta_if_text() {
  return !delta_.has_text() && !finished() ? AnswerDelta() : take_delta();
}

}  // namespace colossal::server
