#include "colossal/server/responses_writer.h"

namespace colossal::server {
namespace {

// Items of text: how their part and their events are called.
const char* part_type(const Json& item) {
  return item["type"] == "message" ? "output_text" : "reasoning_text";
}

Json text_item(const char* type) {
  const bool is_message = std::string_view(type) == "message";
  Json part{{"type", is_message ? "output_text" : "reasoning_text"}, {"text", ""}};
  Json item{
      {"id", random_id(is_message ? "msg_" : "rs_")}, {"type", type}, {"status", "in_progress"}};
  if (is_message) {
    part["annotations"] = Json::array();
    part["logprobs"] = Json::array();
    item["role"] = "assistant";
  } else {
    item["summary"] = Json::array();
  }
  item["content"] = Json::array({std::move(part)});
  return item;
}

Json call_item(const CallDelta& call) {
  return {{"id", random_id("fc_")}, {"type", "function_call"}, {"status", "in_progress"},
          {"call_id", call.id},     {"name", *call.name},      {"arguments", ""}};
}

void append(Json& text, const std::string& more) {
  text.get_ref<std::string&>() += more;
}

}  // namespace

ResponsesWriter::ResponsesWriter(Json body, const GenerationRequest& request,
                                 const ServedModel& model)
    : body_(std::move(body)),
      request_(request),
      chat_(request, model),
      id_(random_id("resp_")),
      created_(seconds_since_1970()) {}

Json ResponsesWriter::response(const char* status) const {
  Json json{{"id", id_},
            {"object", "response"},
            {"created_at", created_},
            {"status", status},
            {"background", false},
            {"error", nullptr},
            {"incomplete_details", nullptr}};
  if (is_cut_) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  const auto repeat = [&](const char* name, Json otherwise) {
    const auto found = body_.find(name);
    json[name] = found == body_.end() || found->is_null() ? std::move(otherwise) : *found;
  };
  repeat("instructions", nullptr);
  repeat("max_output_tokens", nullptr);
  json["model"] = request_.model;
  json["output"] = Json::array();
  repeat("parallel_tool_calls", true);
  json["previous_response_id"] = nullptr;
  repeat("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
  json["store"] = false;
  json["temperature"] = request_.sampling.temperature;
  repeat("text", {{"format", {{"type", "text"}}}});
  repeat("tool_choice", "auto");
  repeat("tools", Json::array());
  json["top_p"] = request_.sampling.top_p;
  repeat("truncation", "disabled");
  json["usage"] = nullptr;
  repeat("user", nullptr);
  repeat("metadata", Json::object());
  return json;
}

Json ResponsesWriter::complete(const TokenCounts& counts) const {
  Json json = response(is_cut_ ? "incomplete" : "completed");
  json["output"] = output_;
  json["usage"] = {{"input_tokens", counts.prompt},
                   {"input_tokens_details", {{"cached_tokens", counts.cached}}},
                   {"output_tokens", counts.completion},
                   {"output_tokens_details", {{"reasoning_tokens", counts.reasoning}}},
                   {"total_tokens", counts.prompt + counts.completion}};
  return json;
}

Json ResponsesWriter::whole(std::vector<WholeAnswer> answers, const TokenCounts& counts) {
  const auto& [all, answer] = answers.front();
  part(0, all, answer, counts);
  return complete(counts);
}

std::string ResponsesWriter::event(const char* name, const Json& data) {
  Json json{{"type", name}, {"sequence_number", num_events_++}};
  json.update(data);
  return server_sent_event(to_text(json), name);
}

std::string ResponsesWriter::begin(int64_t, const TokenCounts&) {
  const Json data{{"response", response("in_progress")}};
  std::string events = event("response.created", data);
  return events += event("response.in_progress", data);
}

bool ResponsesWriter::is_open(const char* type) const {
  return item_is_open_ && output_.back()["type"] == type;
}

Json ResponsesWriter::place() const {
  Json place{{"item_id", output_.back()["id"]}, {"output_index", output_.size() - 1}};
  if (!is_open("function_call")) place["content_index"] = 0;
  return place;
}

std::string ResponsesWriter::open_item(Json item) {
  std::string events = close_item();
  output_.push_back(std::move(item));
  item_is_open_ = true;
  Json empty = output_.back();
  if (empty.contains("content")) empty["content"] = Json::array();
  events += event("response.output_item.added",
                  {{"output_index", output_.size() - 1}, {"item", std::move(empty)}});
  if (is_open("function_call")) return events;
  Json data = place();
  data["part"] = open_part();
  return events + event("response.content_part.added", data);
}

std::string ResponsesWriter::close_item() {
  if (!item_is_open_) return {};
  Json& item = output_.back();
  item["status"] = is_cut_ ? "incomplete" : "completed";
  std::string events;
  Json data = place();
  if (is_open("function_call")) {
    data["name"] = item["name"];
    data["arguments"] = item["arguments"];
    events = event("response.function_call_arguments.done", data);
  } else {
    data["text"] = open_part()["text"];
    if (is_open("message")) data["logprobs"] = open_part()["logprobs"];
    events = event(fmt::format("response.{}.done", part_type(item)).c_str(), data);
    data = place();
    data["part"] = open_part();
    events += event("response.content_part.done", data);
  }
  item_is_open_ = false;
  return events +
         event("response.output_item.done", {{"output_index", output_.size() - 1}, {"item", item}});
}

std::string ResponsesWriter::text_events(const char* type, const std::string& text,
                                         const std::vector<LoggedToken>& logged) {
  if (text.empty()) return {};
  std::string events;
  if (!is_open(type)) events = open_item(text_item(type));
  append(open_part()["text"], text);
  Json data = place();
  data["delta"] = text;
  if (is_open("message")) {
    data["logprobs"] = chat_.logged_tokens(logged);
    for (const Json& entry : data["logprobs"]) open_part()["logprobs"].push_back(entry);
  }
  return events + event(fmt::format("response.{}.delta", part_type(output_.back())).c_str(), data);
}

std::string ResponsesWriter::call_events(const CallDelta& call) {
  std::string events;
  if (call.name) events = open_item(call_item(call));
  if (call.arguments.empty()) return events;
  append(output_.back()["arguments"], call.arguments);
  Json data = place();
  data["delta"] = call.arguments;
  return events + event("response.function_call_arguments.delta", data);
}

std::string ResponsesWriter::part(int64_t, const AnswerDelta& delta, const Answer& answer,
                                  const TokenCounts&) {
  std::string events = text_events("reasoning", delta.reasoning, {});
  events += text_events("message", delta.text, delta.logged);
  for (const CallDelta& call : delta.calls) events += call_events(call);
  if (answer.finished()) {
    is_cut_ = std::string_view(answer.finish_reason()) == "length";
    events += close_item();
  }
  return events;
}

std::string ResponsesWriter::end(const TokenCounts& counts) {
  return event(is_cut_ ? "response.incomplete" : "response.completed",
               {{"response", complete(counts)}});
}

std::string ResponsesWriter::error(const ApiError& error) {
  Json json = response("failed");
  json["output"] = output_;
  json["error"] = {{"code", error.status == 400 ? "invalid_prompt" : "server_error"},
                   {"message", error.what()}};
  std::string events = event(
      "error", {{"code", json["error"]["code"]}, {"message", error.what()}, {"param", nullptr}});
  return events += event("response.failed", {{"response", std::move(json)}});
}

}  // namespace colossal::server
