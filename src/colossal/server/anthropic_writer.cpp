#include "colossal/server/anthropic_writer.h"

namespace colossal::server {
namespace {

// Prompt tokens that were found in the prefix cache are counted separately.
Json anthropic_usage(const TokenCounts& counts) {
  return {{"input_tokens", counts.prompt - counts.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", counts.cached},
          {"output_tokens", counts.completion}};
}

Json tool_use(const CallDelta& call, Json input) {
  return {{"type", "tool_use"}, {"id", call.id}, {"name", *call.name}, {"input", std::move(input)}};
}

}  // namespace

AnthropicWriter::AnthropicWriter(const GenerationRequest& request)
    : request_(request), id_(random_id("msg_")) {}

void AnthropicWriter::set_stop(Json& json, const Answer* answer) {
  json["stop_reason"] = nullptr;
  json["stop_sequence"] = nullptr;
  if (!answer) return;
  const std::string_view reason = answer->finish_reason();
  if (reason == "length") {
    json["stop_reason"] = "max_tokens";
  } else if (answer->has_calls()) {
    json["stop_reason"] = "tool_use";
  } else if (!answer->stop_string().empty()) {
    json["stop_reason"] = "stop_sequence";
    json["stop_sequence"] = answer->stop_string();
  } else {
    json["stop_reason"] = "end_turn";
  }
}

Json AnthropicWriter::message(const Answer* answer, const TokenCounts& counts) const {
  Json json{{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", request_.model},
            {"content", Json::array()}};
  set_stop(json, answer);
  json["usage"] = anthropic_usage(counts);
  return json;
}

Json AnthropicWriter::whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) {
  const auto& [all, answer] = answers.front();
  Json json = message(&answer, counts);
  Json& content = json["content"];
  if (!all.reasoning.empty()) {
    content.push_back({{"type", "thinking"}, {"thinking", all.reasoning}, {"signature", ""}});
  }
  if (!all.text.empty()) content.push_back({{"type", "text"}, {"text", all.text}});
  for (const CallDelta& call : all.calls) {
    content.push_back(tool_use(call, parse_text(call.arguments).value_or(Json::object())));
  }
  return json;
}

std::string AnthropicWriter::event(const char* name, Json data) {
  Json json{{"type", name}};
  json.update(data);
  return server_sent_event(to_text(json), name);
}

std::string AnthropicWriter::begin(int64_t, const TokenCounts& counts) {
  return event("message_start", {{"message", message(nullptr, counts)}}) +
         event("ping", Json::object());
}

std::string AnthropicWriter::open_block(const char* kind, Json block) {
  std::string events = close_block();
  open_ = kind;
  ++block_;
  return events +
         event("content_block_start", {{"index", block_}, {"content_block", std::move(block)}});
}

std::string AnthropicWriter::close_block() {
  if (open_.empty()) return {};
  std::string events;
  if (std::exchange(open_, "") == "thinking") {
    events =
        event("content_block_delta",
              {{"index", block_}, {"delta", {{"type", "signature_delta"}, {"signature", ""}}}});
  }
  return events + event("content_block_stop", {{"index", block_}});
}

std::string AnthropicWriter::text_events(const char* kind, const std::string& text) {
  if (text.empty()) return {};
  std::string events;
  if (open_ != kind) {
    Json block{{"type", kind}, {kind, ""}};
    if (std::string_view(kind) == "thinking") block["signature"] = "";
    events = open_block(kind, std::move(block));
  }
  return events + event("content_block_delta",
                        {{"index", block_},
                         {"delta", {{"type", fmt::format("{}_delta", kind)}, {kind, text}}}});
}

std::string AnthropicWriter::call_events(const CallDelta& call) {
  std::string events;
  if (call.name) events = open_block("tool_use", tool_use(call, Json::object()));
  if (call.arguments.empty()) return events;
  return events +
         event("content_block_delta",
               {{"index", block_},
                {"delta", {{"type", "input_json_delta"}, {"partial_json", call.arguments}}}});
}

std::string AnthropicWriter::part(int64_t, const AnswerDelta& delta, const Answer& answer,
                                  const TokenCounts&) {
  std::string events = text_events("thinking", delta.reasoning);
  events += text_events("text", delta.text);
  for (const CallDelta& call : delta.calls) events += call_events(call);
  if (answer.finished()) {
    events += close_block();
    set_stop(stop_, &answer);
  }
  return events;
}

std::string AnthropicWriter::end(const TokenCounts& counts) {
  return event("message_delta", {{"delta", stop_}, {"usage", anthropic_usage(counts)}}) +
         event("message_stop", Json::object());
}

std::string AnthropicWriter::error(const ApiError& error) {
  return server_sent_event(error.json(ErrorForm::anthropic), "error");
}

}  // namespace colossal::server
