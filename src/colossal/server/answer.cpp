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

text::AnswerForm form_of(const GenerationRequest& request, const ServedModel& model) {
  if (request.kind != GenerationRequest::Kind::chat) return {};
  return {.reasoning = model.reasoning_form(),
          .begin = request.begin,
          .calls = request.tools.form(model.tool_call_form()),
          .tool = request.tools.name,
          .tools = request.tools.tools};
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
      parser_(form_of(request, model)) {}

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
  give(parser_.push(text));
}

void Answer::give(text::ParsedText parsed) {
  if (request_.include_reasoning) delta_.reasoning += parsed.reasoning;
  delta_.text += parsed.content;
  for (text::ToolCallDelta& call : parsed.calls) {
    // A model may write several calls at once, where the request allows only one.
    if (!request_.tools.parallel && call.call > 0) continue;
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
  const bool is_marker =
      request_.kind == GenerationRequest::Kind::chat && model_.is_answer_marker(token.token);
  if (!request_.skip_special_tokens || !model_.is_special(token.token) || is_marker) {
    append(decoder_.push(token.token));
  }
  num_reasoning_tokens_ += parser_.is_in_reasoning() ? 1 : 0;
  return !stop_.found() && (request_.tools.parallel || parser_.num_whole_calls() == 0);
}

void Answer::finish(serve::FinishReason reason, const serve::Usage& usage) {
  if (!stop_.found()) append(decoder_.flush());
  give(stop_.flush());
  give(parser_.finish());
  reason_ = stop_.found() ? serve::FinishReason::stop : reason;
  usage_ = usage;
}

const char* Answer::finish_reason() const {
  if (reason_ == serve::FinishReason::length) return "length";
  const bool decided = request_.tools.choice != ToolRequest::Choice::named;
  if (!decided || parser_.num_calls() == 0) return "stop";
  return request_.tools.are_functions ? "function_call" : "tool_calls";
}

AnswerDelta Answer::take_delta() {
  return std::exchange(delta_, {});
}

AnswerDelta Answer::take_delta_if_text() {
  return !delta_.has_text() && !finished() ? AnswerDelta() : take_delta();
}

}  // namespace colossal::server
