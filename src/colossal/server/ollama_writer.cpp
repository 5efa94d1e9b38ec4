#include "colossal/server/ollama_writer.h"

namespace colossal::server {
namespace {

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

}  // namespace

Json ollama_loaded(const std::string& model, bool is_chat, const char* reason) {
  Json json{{"model", model}, {"created_at", utc_time(seconds_since_1970())}};
  if (is_chat) {
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    json["response"] = "";
  }
  json["done"] = true;
  json["done_reason"] = reason;
  return json;
}

OllamaWriter::OllamaWriter(bool is_chat, const GenerationRequest& request, const ServedModel& model)
    : is_chat_(is_chat),
      request_(request),
      completion_(request, model),
      id_(random_id("ollama-")) {}

Json OllamaWriter::piece(const AnswerDelta& delta, Json calls, bool done) const {
  Json json{{"model", request_.model}, {"created_at", utc_time(seconds_since_1970())}};
  Json& place = is_chat_ ? json["message"] : json;
  if (is_chat_) place["role"] = "assistant";
  place[is_chat_ ? "content" : "response"] = delta.text;
  if (!delta.reasoning.empty()) place["thinking"] = delta.reasoning;
  if (is_chat_ && !calls.empty()) place["tool_calls"] = std::move(calls);
  json["done"] = done;
  if (!delta.logged.empty()) json["logprobs"] = completion_.logged_tokens(delta.logged);
  return json;
}

void OllamaWriter::set_end(Json& json, const TokenCounts& counts) const {
  const std::chrono::duration<double> total = std::chrono::steady_clock::now() - start_;
  json["done_reason"] = reason_;
  json["total_duration"] = nanoseconds(total.count());
  json["load_duration"] = 0;
  json["prompt_eval_count"] = counts.prompt;
  json["prompt_eval_duration"] = nanoseconds(usage_.prefill_seconds);
  json["eval_count"] = counts.completion;
  json["eval_duration"] = nanoseconds(usage_.decode_seconds);
}

void OllamaWriter::collect(const AnswerDelta& delta) {
  for (const CallDelta& call : delta.calls) {
    if (call.name) {
      calls_.push_back(call);
    } else if (!calls_.empty()) {
      calls_.back().arguments += call.arguments;
    }
  }
}

Json OllamaWriter::take_calls() {
  Json calls = Json::array();
  for (const CallDelta& call : std::exchange(calls_, {})) {
    calls.push_back({{"id", call.id},
                     {"function",
                      {{"index", call.index},
                       {"name", *call.name},
                       {"arguments", parse_text(call.arguments).value_or(Json::object())}}}});
  }
  return calls;
}

Json OllamaWriter::whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) {
  const auto& [all, answer] = answers.front();
  collect(all);
  reason_ = std::string_view(answer.finish_reason()) == "length" ? "length" : "stop";
  usage_ = answer.usage();
  Json json = piece(all, take_calls(), /*done=*/true);
  set_end(json, counts);
  return json;
}

std::string OllamaWriter::part(int64_t, const AnswerDelta& delta, const Answer& answer,
                               const TokenCounts&) {
  collect(delta);
  Json calls = Json::array();
  if (answer.finished()) {
    reason_ = std::string_view(answer.finish_reason()) == "length" ? "length" : "stop";
    usage_ = answer.usage();
    calls = take_calls();
  }
  const bool is_seen = !delta.text.empty() || !delta.reasoning.empty() || !delta.logged.empty();
  if (!is_seen && calls.empty()) return {};
  return to_text(piece(delta, std::move(calls), /*done=*/false)) + "\n";
}

std::string OllamaWriter::end(const TokenCounts& counts) {
  Json json = piece({}, Json::array(), /*done=*/true);
  set_end(json, counts);
  return to_text(json) + "\n";
}

std::string OllamaWriter::error(const ApiError& error) {
  return error.json(ErrorForm::ollama) + "\n";
}

}  // namespace colossal::server
