// Requests of other APIs, as chat requests.
#include "colossal/server/translated_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/server/anthropic_request.h"
#include "colossal/server/ollama_request.h"
#include "colossal/server/responses_request.h"

namespace colossal::server {
namespace {

using testing::HasSubstr;

// Returns why the translation is refused; "" if it is not.
template <class Translate>
std::string refusal(const Translate& translate, const char* body) {
  try {
    translate(parse_body(body));
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "";
}

Json anthropic(const Json& body) {
  return translate_anthropic(body, /*generates=*/true).body;
}
Json responses(const Json& body) {
  return translate_responses(body).body;
}
Json ollama(const Json& body) {
  return translate_ollama_chat(body).body;
}

TEST(TranslatedRequest, Anthropic) {
  const Json chat = anthropic(parse_body(R"({
      "model": "m", "max_tokens": 9, "top_k": 3, "stop_sequences": ["x"], "system": [
      {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}], "messages": [
      {"role": "user", "content": "hi"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "7"},
        {"type": "text", "text": "and?"}]},
      {"role": "assistant", "content": "It"}],
      "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
      "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
      "thinking": {"type": "disabled"}})"));
  EXPECT_EQ(chat["messages"], Json::parse(R"([
      {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"},
      {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
        {"id": "t1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]},
      {"role": "tool", "tool_call_id": "t1", "content": "7"},
      {"role": "user", "content": "and?"}, {"role": "assistant", "content": "It"}])"));
  EXPECT_EQ(chat["tools"], Json::parse(R"([{"type": "function", "function":
      {"name": "f", "description": "d", "parameters": {"type": "object"}}}])"));
  EXPECT_EQ(chat["tool_choice"], "required");
  EXPECT_EQ(chat["parallel_tool_calls"], false);
  EXPECT_EQ(chat["continue_final_message"], true);
  EXPECT_EQ(chat["stop"], Json::array({"x"}));
  EXPECT_EQ(chat["chat_template_kwargs"]["enable_thinking"], false);
}

TEST(TranslatedRequest, AnAnthropicMessageWithoutBlocksIsEmpty) {
  for (const char* role : {"user", "assistant"}) {
    const Json messages = Json::array({{{"role", role}, {"content", Json::array()}}});
    const Json chat = translate_anthropic({{"messages", messages}}, /*generates=*/false).body;
    EXPECT_EQ(chat["messages"], Json::array({{{"role", role}, {"content", ""}}}));
  }
}

TEST(TranslatedRequest, AnthropicRefusesByName) {
  for (const auto& [body, message] : std::vector<std::pair<const char*, const char*>>{
           {R"({"messages": [{"role": "user", "content": "a"}]})", "max_tokens"},
           {R"({"max_tokens": 1})", "messages"},
           {R"({"max_tokens": 1, "messages": [{"role": "tool", "content": "a"}]})", "role"},
           {R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image"}]}]})",
            "text only"},
           {R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}],
                "tools": [{"type": "web_search_20250305", "name": "web_search"}]})",
            "no tools of its own"},
           {R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}],
                "tool_choice": {"type": "x"}})",
            "tool_choice"}}) {
    EXPECT_THAT(refusal(anthropic, body), HasSubstr(message)) << body;
  }
}

TEST(TranslatedRequest, Responses) {
  EXPECT_EQ(responses(parse_body(R"({"input": "hi", "instructions": "be brief"})"))["messages"],
            Json::parse(R"([{"role": "system", "content": "be brief"},
                            {"role": "user", "content": "hi"}])"));
  const Json chat = responses(parse_body(R"({
      "input": [{"role": "developer", "content": [{"type": "input_text", "text": "be brief"}]},
      {"type": "message", "role": "user", "content": "hi"},
      {"type": "reasoning", "id": "r", "summary": [], "content": [
        {"type": "reasoning_text", "text": "hm"}]},
      {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": [
        {"type": "output_text", "text": "I look.", "annotations": []}]},
      {"type": "function_call", "id": "x", "call_id": "c1", "name": "f", "arguments": "{\"a\": 1}"},
      {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "7"},
      {"type": "function_call_output", "call_id": "c2", "output": "8"}],
      "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"},
                 "strict": true}],
      "tool_choice": {"type": "function", "name": "f"}, "max_output_tokens": 9,
      "text": {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}}},
      "reasoning": {"effort": "low"}})"));
  EXPECT_EQ(chat["messages"], Json::parse(R"([
      {"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"},
      {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "7"},
      {"role": "tool", "tool_call_id": "c2", "content": "8"}])"));
  EXPECT_EQ(chat["tool_choice"]["function"]["name"], "f");
  EXPECT_EQ(chat["response_format"]["json_schema"]["schema"]["type"], "object");
  EXPECT_EQ(chat["max_completion_tokens"], 9);
  EXPECT_EQ(chat["reasoning_effort"], "low");
}

TEST(TranslatedRequest, ResponsesRefusesByName) {
  for (const auto& [body, message] : std::vector<std::pair<const char*, const char*>>{
           {R"({})", "input"},
           {R"({"input": "a", "previous_response_id": "resp_1"})", "stores no responses"},
           {R"({"input": "a", "conversation": "c"})", "stores no responses"},
           {R"({"input": "a", "background": true})", "background"},
           {R"({"input": [{"type": "item_reference", "id": "x"}]})", "stores no responses"},
           {R"({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})", "text only"},
           {R"({"input": "a", "tools": [{"type": "web_search"}]})", "no tools of its own"},
           {R"({"input": "a", "text": {"format": {"type": "x"}}})", "format"}}) {
    EXPECT_THAT(refusal(responses, body), HasSubstr(message)) << body;
  }
}

TEST(TranslatedRequest, OllamaChats) {
  const Json chat = ollama(parse_body(R"({
      "model": "m:latest", "messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
        {"function": {"name": "f", "arguments": {"a": 1}}}]},
      {"role": "tool", "tool_name": "f", "content": "7"}],
      "options": {"num_predict": 5, "num_ctx": 4096, "repeat_penalty": 1.1, "stop": ["x"]},
      "format": {"type": "object"}, "think": "low", "keep_alive": "5m"})"));
  EXPECT_EQ(chat["messages"], Json::parse(R"([{"role": "user", "content": "hi"},
      {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
        {"function": {"name": "f", "arguments": {"a": 1}}, "type": "function", "id": "call00000"}]},
      {"role": "tool", "content": "7", "name": "f", "tool_call_id": "call00000"}])"));
  EXPECT_EQ(chat["stream"], true);
  EXPECT_EQ(chat["max_tokens"], 5);
  EXPECT_EQ(chat["repetition_penalty"], 1.1);
  EXPECT_EQ(chat["response_format"]["type"], "json_schema");
  EXPECT_EQ(chat["reasoning_effort"], "low");
  EXPECT_THAT(refusal(ollama, R"({"messages": [{"role": "user", "content": "a",
                                               "images": ["x"]}]})"),
              HasSubstr("text only"));
  EXPECT_THAT(refusal(ollama, R"({"messages": [{"role": "user", "content": "a"}],
                                  "options": {"temprature": 1}})"),
              HasSubstr("temprature"));
}

TEST(TranslatedRequest, OllamaGenerations) {
  const Json body = parse_body(R"({"prompt": "hi", "system": "s", "stream": false})");
  const OllamaGeneration chat = translate_ollama_generation(body, /*has_template=*/true);
  EXPECT_TRUE(chat.is_chat);
  EXPECT_EQ(chat.request.body["messages"].size(), 2u);
  const OllamaGeneration plain = translate_ollama_generation(body, /*has_template=*/false);
  EXPECT_FALSE(plain.is_chat);
  EXPECT_EQ(plain.request.body["prompt"], "shi");
  EXPECT_FALSE(
      translate_ollama_generation(parse_body(R"({"prompt": "hi", "raw": true})"), true).is_chat);
  EXPECT_TRUE(is_ollama_load(parse_body(R"({"model": "m", "messages": []})")));
  EXPECT_TRUE(is_ollama_load(parse_body(R"({"model": "m", "prompt": ""})")));
  EXPECT_FALSE(is_ollama_load(body));
}

}  // namespace
}  // namespace colossal::server
