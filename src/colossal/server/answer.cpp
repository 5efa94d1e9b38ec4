#include "colossal/server/answer.h"

#include <algorithm>

namespace colossal::server {
namespace {

int64_t num_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

}  // namespace

Answer::Answer(const GenerationRequest& request, const GenerationRequest::Prompt& prompt,
               const ServedModel& model)
    : request_(request),
      prompt_(prompt),
      model_(model),
      decoder_(model.tokenizer(), text::StreamingDecoder::Begins::after_prompt),
      stop_(request.stop, request.include_stop) {}

void Answer::log(std::optional<serve::GeneratedToken> token, int32_t id) {
  if (request_.logprobs >= 0) delta_.logged.push_back({std::move(token), id, length_});
}

void Answer::echo(const std::vector<std::optional<serve::GeneratedToken>>& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    log(tokens[i], prompt_.tokens[i]);
    length_ += num_characters(model_.bytes_of(prompt_.tokens[i]));
  }
  delta_.text += prompt_.text;
  length_ = num_characters(prompt_.text);
}

void Answer::append(std::string_view text) {
  length_ += num_characters(text);
  delta_.text += stop_.push(text);
}

bool Answer::take(const serve::GeneratedToken& token) {
  ++num_tokens_;
  log(token, token.token);
  if (request_.return_token_ids) delta_.tokens.push_back(token.token);
  if (request_.skip_special_tokens && model_.is_special(token.token)) return true;
  append(decoder_.push(token.token));
  return !stop_.found();
}

void Answer::finish(serve::FinishReason reason, const serve::Usage& usage) {
  if (!stop_.found()) append(decoder_.flush());
  delta_.text += stop_.flush();
  reason_ = stop_.found() ? serve::FinishReason::stop : reason;
  usage_ = usage;
}

const char* Answer::finish_reason() const {
  return reason_ == serve::FinishReason::length ? "length" : "stop";
}

AnswerDelta Answer::take_delta() {
  return std::exchange(delta_, {});
}

AnswerDelta Answer::take_delta_if_text() {
  return delta_.text.empty() && !finished() ? AnswerDelta() : take_delta();
}

}  // namespace colossal::server
