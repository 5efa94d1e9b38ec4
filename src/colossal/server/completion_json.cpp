#include "colossal/server/completion_json.h"

#include <cmath>

#include "colossal/text/utf8.h"

namespace colossal::server {
namespace {

// Stands for -infinity, which JSON does not have.
constexpr double kLeastLogprob = -9999;

double shown_logprob(double logprob) {
  return std::isfinite(logprob) ? std::max(logprob, kLeastLogprob) : kLeastLogprob;
}

Json or_null(const char* text) {
  return text ? Json(text) : Json(nullptr);
}

Json part_of_call(const CallDelta& call) {
  Json part{{"index", call.index}};
  if (call.name) part.update(whole_call(call));
  part["function"]["arguments"] = call.arguments;
  return part;
}

// Adds the reasoning to a message, under both names that clients read.
void add_reasoning(Json& message, const AnswerDelta& delta) {
  if (delta.reasoning.empty()) return;
  message["reasoning_content"] = delta.reasoning;
  message["reasoning"] = delta.reasoning;
}

}  // namespace

Json whole_call(const CallDelta& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", *call.name}, {"arguments", call.arguments}}}};
}

CompletionJson::CompletionJson(const GenerationRequest& request, const ServedModel& model)
    : request_(request),
      model_(model),
      id_(random_id(is_chat() ? "chatcmpl-" : "cmpl-")),
      created_(seconds_since_1970()) {}

Json CompletionJson::envelope(bool streams) const {
  const char* object = !is_chat() ? "text_completion"
                       : streams  ? "chat.completion.chunk"
                                  : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", request_.model}};
}

Json CompletionJson::usage(const TokenCounts& counts) {
  return {{"prompt_tokens", counts.prompt},
          {"completion_tokens", counts.completion},
          {"total_tokens", counts.prompt + counts.completion},
          {"prompt_tokens_details", {{"cached_tokens", counts.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", counts.reasoning}}}};
}

Json CompletionJson::choice(int64_t index, const AnswerDelta& all,
                            const char* finish_reason) const {
  Json choice{{"index", index}};
  if (is_chat()) {
    const bool has_other = !all.calls.empty() || !all.reasoning.empty();
    Json content = all.text.empty() && has_other ? Json(nullptr) : Json(all.text);
    choice["message"] = {
        {"role", "assistant"}, {"content", std::move(content)}, {"refusal", nullptr}};
    add_reasoning(choice["message"], all);
    for (const CallDelta& call : all.calls) {
      if (request_.tools.are_functions) {
        choice["message"]["function_call"] = whole_call(call)["function"];
      } else {
        choice["message"]["tool_calls"].push_back(whole_call(call));
      }
    }
  } else {
    choice["text"] = all.text;
  }
  choice["logprobs"] = logprobs(all.logged);
  choice["finish_reason"] = or_null(finish_reason);
  if (request_.return_token_ids) choice["token_ids"] = all.tokens;
  return choice;
}

Json CompletionJson::prompt_logprobs(const Answer& answer) const {
  Json all = Json::array();
  for (const auto& token : answer.prompt_logprobs()) {
    Json entry = nullptr;
    const auto add = [&](int32_t number, double logprob, int64_t rank) {
      entry[std::to_string(number)] = {{"logprob", shown_logprob(logprob)},
                                       {"rank", rank},
                                       {"decoded_token", token_text(number, /*show_bytes=*/true)}};
    };
    if (token) {
      add(token->token, token->logprob, token->rank);
      const auto count = std::min<size_t>(token->top.size(), request_.prompt_logprobs);
      for (size_t i = 0; i < count; ++i) {
        add(token->top[i].token, token->top[i].logprob, static_cast<int64_t>(i) + 1);
      }
    }
    all.push_back(std::move(entry));
  }
  return all;
}

Json CompletionJson::whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) {
  std::vector<Json> choices;
  for (const auto& [all, answer] : answers) {
    choices.push_back(choice(std::ssize(choices), all, answer.finish_reason()));
    if (request_.prompt_logprobs >= 0) {
      choices.back()["prompt_logprobs"] = prompt_logprobs(answer);
    }
  }
  Json json = envelope(false);
  json["choices"] = std::move(choices);
  json["usage"] = usage(counts);
  return json;
}

Json CompletionJson::event_of(Json choice) const {
  Json json = envelope(true);
  json["choices"] = Json::array({std::move(choice)});
  return json;
}

// A chat stream has the role once for each answer, before all other events.
std::string CompletionJson::begin(int64_t index, const TokenCounts&) {
  if (!is_chat()) return {};
  return server_sent_event(to_text(event_of({{"index", index},
                                             {"delta", {{"role", "assistant"}, {"content", ""}}},
                                             {"logprobs", nullptr},
                                             {"finish_reason", nullptr}})));
}

std::string CompletionJson::part(int64_t index, const AnswerDelta& delta, const Answer& answer,
                                 const TokenCounts& counts) {
  Json json = event(index, delta, answer.finished() ? answer.finish_reason() : nullptr);
  if (request_.continuous_usage) json["usage"] = usage(counts);
  return server_sent_event(to_text(json));
}

std::string CompletionJson::end(const TokenCounts& counts) {
  std::string events;
  if (request_.include_usage) {
    Json json = envelope(true);
    json["choices"] = Json::array();
    json["usage"] = usage(counts);
    events = server_sent_event(to_text(json));
  }
  return events + server_sent_event("[DONE]");
}

std::string CompletionJson::error(const ApiError& error) {
  return server_sent_event(error.json());
}

Json CompletionJson::event(int64_t index, const AnswerDelta& delta,
                           const char* finish_reason) const {
  Json choice{{"index", index}};
  if (is_chat()) {
    choice["delta"] = delta.text.empty() ? Json::object() : Json{{"content", delta.text}};
    add_reasoning(choice["delta"], delta);
    for (const CallDelta& call : delta.calls) {
      if (request_.tools.are_functions) {
        choice["delta"]["function_call"] = part_of_call(call)["function"];
      } else {
        choice["delta"]["tool_calls"].push_back(part_of_call(call));
      }
    }
  } else {
    choice["text"] = delta.text;
  }
  choice["logprobs"] = delta.logged.empty() ? Json(nullptr) : logprobs(delta.logged);
  choice["finish_reason"] = or_null(finish_reason);
  if (request_.return_token_ids) choice["token_ids"] = delta.tokens;
  return event_of(std::move(choice));
}

Json CompletionJson::logprobs(const std::vector<LoggedToken>& logged) const {
  if (request_.logprobs < 0) return nullptr;
  return is_chat() ? Json{{"content", logged_tokens(logged)}} : text_logprobs(logged);
}

// Returns a token's text. If the token is no valid UTF-8 by itself and show_bytes is true, returns
// its bytes in hexadecimal.
std::string CompletionJson::token_text(int32_t token, bool show_bytes) const {
  if (request_.tokens_as_ids) return fmt::format("token_id:{}", token);
  std::string bytes = model_.bytes_of(token);
  if (!show_bytes || text::valid_utf8_length(bytes) == bytes.size()) return bytes;
  std::string shown = "bytes:";
  for (const char byte : bytes) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return shown;
}

Json CompletionJson::text_logprobs(const std::vector<LoggedToken>& logged) const {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const LoggedToken& entry : logged) {
    tokens.push_back(token_text(entry.id, /*show_bytes=*/true));
    offsets.push_back(entry.offset);
    if (!entry.token) {
      values.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    values.push_back(shown_logprob(entry.token->logprob));
    Json top = Json::object();
    for (const serve::TokenLogprob& other : entry.token->top) {
      top[token_text(other.token, true)] = shown_logprob(other.logprob);
    }
    top[token_text(entry.id, true)] = shown_logprob(entry.token->logprob);
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json CompletionJson::chat_token(int32_t token, double logprob) const {
  const std::string bytes = model_.bytes_of(token);
  Json values = Json::array();
  for (const char byte : bytes) values.push_back(static_cast<unsigned char>(byte));
  return {{"token", token_text(token, /*show_bytes=*/false)},
          {"logprob", shown_logprob(logprob)},
          {"bytes", std::move(values)}};
}

Json CompletionJson::logged_tokens(const std::vector<LoggedToken>& logged) const {
  Json content = Json::array();
  for (const LoggedToken& entry : logged) {
    Json token = chat_token(entry.id, entry.token ? entry.token->logprob : 0);
    token["top_logprobs"] = Json::array();
    if (entry.token) {
      for (const serve::TokenLogprob& other : entry.token->top) {
        token["top_logprobs"].push_back(chat_token(other.token, other.logprob));
      }
    }
    content.push_back(std::move(token));
  }
  return content;
}

}  // namespace colossal::server
