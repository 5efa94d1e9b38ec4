// Damaged requests (mutations.h): damaged JSON becomes a request or an ApiError; damaged bytes get
// an HTTP answer or none. The server then still answers as before.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "colossal/server/anthropic_request.h"
#include "colossal/server/generation_request.h"
#include "colossal/server/http_server.h"
#include "colossal/server/ollama_request.h"
#include "colossal/server/responses_request.h"
#include "tests/support/mutations.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::server {
namespace {

using test::for_mutations;
using test::Mutator;

TEST(RequestMutation, JsonIsReadOrRefused) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", text::small_tokenizer().dump());
  folder.write("chat_template.jinja",
               "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}");
  const ServedModel model(folder.path(), "small", /*max_length=*/200, /*vocabulary=*/300);
  RuleCache rules;
  for_mutations(
      {R"({"prompt": ["hello", "x"], "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 3,
          "stop": ["a", "b"], "logit_bias": {"7": -3.5}, "n": 2, "best_of": 3, "seed": 7,
          "stream": true, "stream_options": {"include_usage": true}, "logprobs": 2, "echo": true})",
       R"({"prompt": [[72, 73], [74]], "use_beam_search": true, "best_of": 4, "length_penalty": 0.5,
          "structured_outputs": {"regex": "[a-c]{2,4}"}, "allowed_token_ids": [1, 2, 3],
          "repetition_penalty": 1.1, "min_tokens": 2, "priority": -1, "cache_salt": "s"})",
       R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
          "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}], "max_completion_tokens": 4,
          "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
          "properties": {"a": {"type": "integer"}}}}}], "tool_choice": "required"})",
       R"({"messages": [{"role": "user", "content": "hi"}], "response_format": {"type":
          "json_schema", "json_schema": {"name": "s", "schema": {"type": "object", "properties":
          {"x": {"enum": ["a", 1, null]}}, "required": ["x"]}}}, "top_logprobs": 3,
          "logprobs": true})",
       R"({"max_tokens": 3, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user",
          "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text",
          "text": "7"}]}]}], "tools": [{"name": "f", "input_schema": {"type": "object"}}],
          "tool_choice": {"type": "tool", "name": "f"}, "thinking": {"type": "enabled"}})",
       R"({"instructions": "i", "input": [{"role": "user", "content": [{"type": "input_text",
          "text": "hi"}]}, {"type": "function_call", "call_id": "c", "name": "f", "arguments":
          "{}"}, {"type": "function_call_output", "call_id": "c", "output": "7"}], "text":
          {"format": {"type": "json_object"}}, "reasoning": {"effort": "low"}})",
       R"({"messages": [{"role": "user", "content": "hi"}], "options": {"num_predict": 3, "stop":
          ["a"], "temperature": 0}, "format": {"type": "object"}, "think": true,
          "keep_alive": "5m"})"},
      "\"\\[]{}:, 01-.eatrufs", [&](const std::string& body, Mutator& mutator) {
        try {
          const Json json = parse_body(body);
          switch (mutator.below(6)) {
            case 0:
              read_completion_request(json, model, rules);
              break;
            case 1:
              read_chat_request(json, model, rules);
              break;
            case 2:
              read_chat_request(translate_anthropic(json, true).body, model, rules);
              break;
            case 3:
              read_chat_request(translate_responses(json).body, model, rules);
              break;
            case 4:
              read_chat_request(translate_ollama_chat(json).body, model, rules);
              break;
            case 5: {
              const auto [is_chat, request] = translate_ollama_generation(json, true);
              if (is_chat) read_chat_request(request.body, model, rules);
            }
          }
        } catch (const ApiError& error) {
          // 429: too many rules wait to be compiled.
          EXPECT_TRUE(error.status == 400 || error.status == 404 || error.status == 429)
              << error.status;
          EXPECT_STRNE(error.what(), "");
        }
      });
}

// Sends bytes and returns all that the server answers.
std::string ask(int port, const std::string& bytes) {
  const sockaddr_in to{.sin_family = AF_INET,
                       .sin_port = htons(static_cast<uint16_t>(port)),
                       .sin_addr = {htonl(INADDR_LOOPBACK)},
                       .sin_zero = {}};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) break;  // the server refused the request before reading all of it
    sent += static_cast<size_t>(count);
  }
  shutdown(fd, SHUT_WR);
  std::string received;
  char buffer[4096];
  for (ssize_t count; (count = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    received.append(buffer, static_cast<size_t>(count));
  }
  close(fd);
  return received;
}

TEST(RequestMutation, HttpIsAnsweredOrEnds) {
  HttpServer server("127.0.0.1", 0, {.header_bytes = 2048, .body_bytes = 4096},
                    [](const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
                      reply->send(200, "text/plain", request.path + request.body);
                    });
  std::thread thread([&] { server.run(); });
  const std::string address = server.address();
  const int port = std::stoi(address.substr(address.find(':') + 1));
  const std::string good =
      "POST /good HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
  for_mutations(
      {good,
       "POST /a?b=c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
       "chunked\r\n\r\n4\r\nabcd\r\n1;x=y\r\ne"
       "\r\n0\r\nTrailer: t\r\n\r\n",
       "GET /x HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\nGET /y HTTP/1.0\r\n\r\n",
       "POST /z HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\nContent-Type: "
       "application/json\r\nAuthorization: Bearer k\r\nOrigin: http://o\r\n\r\n{ }"},
      "\r\n:;,/?# 019afAZ\t-_\"%\x80", [&](const std::string& bytes, Mutator& mutator) {
        const std::string answer = ask(port, bytes);
        EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.")) << answer;
        if (mutator.below(50) > 0) return;
        EXPECT_THAT(ask(port, good), testing::HasSubstr("\r\n\r\n/goodok"));
      });
  server.stop();
  thread.join();
}

}  // namespace
}  // namespace colossal::server
