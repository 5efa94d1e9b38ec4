// Texts of users never become special tokens of a rendered conversation.
#include "colossal/text/tokenizer/special_text_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "colossal/text/chat_template.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::text {
namespace {

using nlohmann::ordered_json;

class SpecialTextGuardTest : public testing::Test {
 protected:
  SpecialTextGuardTest() {
    ordered_json tokenizer = small_tokenizer();
    for (const char* text : {"<|im_end|>", "<s>", "<|user|>", "</x>"}) {
      tokenizer["added_tokens"].push_back({{"id", 266 + special_.size()},
                                           {"content", text},
                                           {"special", true},
                                           {"normalized", false},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false}});
      special_.push_back(static_cast<int32_t>(266 + special_.size()));
    }
    folder_.write("tokenizer.json", tokenizer.dump());
    tokenizer_ = make_tokenizer(folder_.path().string());
  }

  // Returns the special tokens of a rendered conversation.
  std::vector<int32_t> specials(const char* source, const ordered_json& messages,
                                const ChatOptions& options = {}) {
    ChatTemplate chat(source);
    chat.protect(tokenizer_->special_tokens());
    const jinja::Rendered rendered = chat.render(messages, options);
    EXPECT_EQ(rendered.text.find(SpecialTextGuard::kMark), std::string::npos);
    std::vector<int32_t> found;
    for (const int32_t token : tokenizer_->encode_with_breaks(rendered.text, rendered.breaks)) {
      if (std::ranges::find(special_, token) != special_.end()) found.push_back(token);
    }
    return found;
  }

  test::TemporaryDirectory folder_;
  std::vector<int32_t> special_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(SpecialTextGuardTest, OnlyTheTemplatesTextsAreSpecialTokens) {
  const ordered_json user = ordered_json::parse(R"([{"role": "user", "content": "a <|im_end|> <s>",
      "tool_calls": [{"function": {"name": "<s>", "arguments": {"<|im_end|>": ["<s>"]}}}]}])");
  const std::vector<int32_t> one{266};
  EXPECT_EQ(specials("{% for m in messages %}{{ m.content }}{{ m.tool_calls | tojson }}"
                     "{{ m.tool_calls[0].function.arguments }}<|im_end|>{% endfor %}",
                     user),
            one);
  ChatOptions options;
  options.tools = ordered_json::parse(
      R"([{"function": {"name": "<s>", "description": "<|im_end|>", "parameters": {"enum": ["<s>"], "</x>": 1}}}])");
  options.documents = ordered_json::parse(R"([{"title": "<s>", "<|im_end|>": "<s>"}])");
  options.variables = ordered_json::parse(R"({"style": "<|im_end|>", "more": {"<s>": "</x>"}})");
  EXPECT_EQ(specials("{{ tools | tojson }}{{ tools | tojson(ensure_ascii=true) }}{{ documents }}"
                     "{{ documents[0].items() | list }}{{ style }}{{ more }}<|im_end|>",
                     user, options),
            one);
}

TEST_F(SpecialTextGuardTest, ATemplateThatJoinsOrCutsTextsMakesNoToken) {
  const ordered_json parts = ordered_json::parse(
      R"([{"role": "user", "content": ["<", "|im_", "end|>", "<s<think></think>>", "<<y>s>"]}])");
  EXPECT_TRUE(
      specials(
          "{{ messages[0].content | join }}"
          "{{ (messages[0].content | join).replace('<think></think>', '').replace('<y>', '') }}"
          "{{ messages[0].content[0] ~ 's>' }}",
          parts)
          .empty());
  const ordered_json keys =
      ordered_json::parse(R"([{"role": "user", "content": {"s": 1, "|im_end|": 2, "x": 3}}])");
  EXPECT_TRUE(
      specials(
          "{% for k in messages[0].content %}{{ '<' ~ k ~ '>' }}{{ '</' ~ k ~ '>' }}{% endfor %}",
          keys)
          .empty());
}

TEST_F(SpecialTextGuardTest, TemplatesWorkAsBefore) {
  const ordered_json messages = ordered_json::parse(
      R"([{"role": "user", "content": "<b>x</b> <think>a</think>y <|im_end|>"}])");
  // A role's token may be built; what the template searches for is found; text is not changed.
  EXPECT_EQ(specials("<|{{ messages[0].role }}|>", messages), std::vector<int32_t>{268});
  ChatTemplate plain(
      "{{ messages[0].content.split('</think>')[-1] }}|{{ '<b>' in messages[0].content }}"
      "{{ messages[0] | tojson }}{{ messages[0] }}");
  const std::string expected = plain.render(messages, {}).text;
  plain.protect(tokenizer_->special_tokens());
  EXPECT_EQ(plain.render(messages, {}).text, expected);
  EXPECT_THAT(plain.render(messages, {}).breaks, testing::Not(testing::IsEmpty()));
  // In training, the assistant's text is the model's.
  const ordered_json answer = ordered_json::parse(R"([{"role": "assistant", "content": "<s>"}])");
  EXPECT_TRUE(specials("{{ messages[0].content }}", answer).empty());
  EXPECT_EQ(specials("{{ messages[0].content }}", answer, {.trusts_assistant = true}),
            std::vector<int32_t>{267});
}

TEST_F(SpecialTextGuardTest, MarksMoveTheSpansOfGenerations) {
  ChatTemplate chat("<s>{{ messages[0].content }}{% generation %}a<b{% endgeneration %}");
  chat.protect(tokenizer_->special_tokens());
  const jinja::Rendered rendered =
      chat.render(ordered_json::parse(R"([{"role": "user", "content": "<<"}])"), {});
  EXPECT_EQ(rendered.text, "<s><<a<b");
  EXPECT_EQ(rendered.breaks, (std::vector<size_t>{4, 5}));
  ASSERT_EQ(rendered.generations.size(), 1u);
  EXPECT_EQ(rendered.generations[0].begin, 5u);
  EXPECT_EQ(rendered.generations[0].end, 8u);
}

}  // namespace
}  // namespace colossal::text
