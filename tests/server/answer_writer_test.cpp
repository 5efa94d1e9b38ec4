// What the writers of each API make of reasoning, text and tool calls.
#include "colossal/server/answer_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "colossal/server/anthropic_writer.h"
#include "colossal/server/ollama_writer.h"
#include "colossal/server/responses_writer.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::server {
namespace {

using testing::ElementsAre;

class AnswerWriterTest : public testing::Test {
 protected:
  AnswerWriterTest() {
    folder_.write("tokenizer.json", text::small_tokenizer().dump());
    model_ = std::make_unique<ServedModel>(folder_.path(), "small", 20, 300);
    request_.kind = GenerationRequest::Kind::chat;
    request_.model = "small";
    request_.prompts.push_back({{1}, ""});
    answer_.emplace(request_, request_.prompts[0], *model_);
  }

  // The answer of the tests: reasoning, text and two calls, in parts as they come.
  static std::vector<AnswerDelta> parts() {
    return {{.reasoning = "I"},
            {.reasoning = " think"},
            {.text = "So"},
            {.text = ": "},
            {.calls = {{.index = 0, .id = "one", .name = "f", .arguments = R"({"a")"}}},
            {.calls = {{.index = 0, .arguments = ": 1}"},
                       {.index = 1, .id = "two", .name = "g", .arguments = "{}"}}}};
  }
  static AnswerDelta whole() {
    return {.reasoning = "I think",
            .text = "So: ",
            .calls = {{.index = 0, .id = "one", .name = "f", .arguments = R"({"a": 1})"},
                      {.index = 1, .id = "two", .name = "g", .arguments = "{}"}}};
  }
  void finish() { answer_->finish(serve::FinishReason::stop, {}); }

  // Returns the stream of the parts.
  std::string stream(AnswerWriter& writer) {
    std::string all = writer.begin(0, counts_);
    for (const AnswerDelta& part : parts()) all += writer.part(0, part, *answer_, counts_);
    finish();
    all += writer.part(0, {}, *answer_, counts_);
    return all += writer.end(counts_);
  }
  // Returns the JSON of each line that begins with `before`.
  static std::vector<Json> lines(const std::string& stream, const std::string& before) {
    std::vector<Json> found;
    std::istringstream input(stream);
    for (std::string line; std::getline(input, line);) {
      if (line.starts_with(before) && line.size() > before.size()) {
        found.push_back(Json::parse(line.substr(before.size())));
      }
    }
    return found;
  }

  test::TemporaryDirectory folder_;
  std::unique_ptr<ServedModel> model_;
  GenerationRequest request_;
  std::optional<Answer> answer_;
  TokenCounts counts_{.prompt = 3, .cached = 1, .completion = 7, .reasoning = 2};
};

TEST_F(AnswerWriterTest, Anthropic) {
  AnthropicWriter streamed(request_), writer(request_);
  std::vector<std::string> types;
  Json content = Json::array();
  for (const Json& event : lines(stream(streamed), "data: ")) {
    const std::string type = event["type"];
    types.push_back(type);
    if (type == "content_block_start") {
      ASSERT_EQ(event["index"], content.size());
      content.push_back(event["content_block"]);
      if (content.back()["type"] == "tool_use") content.back()["input"] = "";
    }
    if (type != "content_block_delta") continue;
    const Json& delta = event["delta"];
    Json& block = content[event["index"].get<size_t>()];
    for (const auto& [from, to] : {std::pair("thinking", "thinking"), std::pair("text", "text"),
                                   std::pair("partial_json", "input")}) {
      if (delta.contains(from)) {
        block[to] = block[to].get<std::string>() + delta[from].get<std::string>();
      }
    }
  }
  for (Json& block : content) {
    if (block["type"] == "tool_use")
      block["input"] = Json::parse(block["input"].get<std::string>());
  }
  EXPECT_EQ(std::ranges::count(types, "content_block_start"), 4);
  EXPECT_EQ(std::ranges::count(types, "content_block_stop"), 4);
  EXPECT_EQ(types.front(), "message_start");
  EXPECT_EQ(types.back(), "message_stop");
  const Json message = writer.whole({{whole(), *answer_}}, counts_);
  EXPECT_EQ(message["content"], content);
  EXPECT_EQ(content, Json::parse(R"([
      {"type": "thinking", "thinking": "I think", "signature": ""}, {"type": "text", "text": "So: "},
      {"type": "tool_use", "id": "one", "name": "f", "input": {"a": 1}},
      {"type": "tool_use", "id": "two", "name": "g", "input": {}}])"));
  EXPECT_EQ(message["usage"]["input_tokens"], 2);
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 1);
}

TEST_F(AnswerWriterTest, Responses) {
  ResponsesWriter streamed(Json::object(), request_, *model_),
      writer(Json::object(), request_, *model_);
  const std::vector<Json> events = lines(stream(streamed), "data: ");
  std::map<std::string, std::string> deltas;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    const std::string type = events[i]["type"];
    if (type.ends_with(".delta")) deltas[type] += events[i]["delta"].get<std::string>();
  }
  EXPECT_EQ(deltas["response.reasoning_text.delta"], "I think");
  EXPECT_EQ(deltas["response.output_text.delta"], "So: ");
  EXPECT_EQ(deltas["response.function_call_arguments.delta"], R"({"a": 1}{})");
  EXPECT_EQ(events.back()["type"], "response.completed");
  // Ids are random.
  const auto without_ids = [](Json output) {
    for (Json& item : output) item.erase("id");
    return output;
  };
  const Json output = without_ids(events.back()["response"]["output"]);
  EXPECT_EQ(output, Json::parse(R"([
      {"type": "reasoning", "status": "completed", "summary": [],
       "content": [{"type": "reasoning_text", "text": "I think"}]},
      {"type": "message", "status": "completed", "role": "assistant", "content": [
        {"type": "output_text", "text": "So: ", "annotations": [], "logprobs": []}]},
      {"type": "function_call", "status": "completed", "call_id": "one", "name": "f",
       "arguments": "{\"a\": 1}"},
      {"type": "function_call", "status": "completed", "call_id": "two", "name": "g",
       "arguments": "{}"}])"));
  const Json response = writer.whole({{whole(), *answer_}}, counts_);
  EXPECT_EQ(without_ids(response["output"]), output);
  EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], 2);
}

TEST_F(AnswerWriterTest, Ollama) {
  OllamaWriter streamed(/*is_chat=*/true, request_, *model_),
      writer(/*is_chat=*/true, request_, *model_);
  std::string thinking, content;
  Json calls;
  const std::vector<Json> pieces = lines(stream(streamed), "");
  for (const Json& piece : pieces) {
    thinking += piece["message"].value("thinking", "");
    content += piece["message"]["content"].get<std::string>();
    if (piece["message"].contains("tool_calls")) calls = piece["message"]["tool_calls"];
  }
  EXPECT_EQ(thinking, "I think");
  EXPECT_EQ(content, "So: ");
  EXPECT_EQ(calls, Json::parse(R"([
      {"id": "one", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}},
      {"id": "two", "function": {"index": 1, "name": "g", "arguments": {}}}])"));
  EXPECT_EQ(pieces.back()["done"], true);
  const Json answer = writer.whole({{whole(), *answer_}}, counts_);
  EXPECT_EQ(answer["message"]["tool_calls"], calls);
  EXPECT_EQ(answer["eval_count"], 7);
  EXPECT_EQ(utc_time(86'399), "1970-01-01T23:59:59Z");
}

}  // namespace
}  // namespace colossal::server
