// Chat templates are rendered as by `transformers`, byte for byte.
#include "colossal/text/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace colossal::text {
namespace {

using nlohmann::ordered_json;

const std::map<std::string, std::string> kTokens{
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}};

ChatOptions options_of(const ordered_json& json) {
  ChatOptions options{.add_generation_prompt = json.value("add_generation_prompt", false),
                      .continue_final_message = json.value("continue_final_message", false)};
  if (json.contains("tools")) options.tools = json["tools"];
  return options;
}

std::vector<jinja::Span> spans_of(const ordered_json& json) {
  std::vector<jinja::Span> spans;
  for (const auto& span : json) spans.push_back({span[0].get<size_t>(), span[1].get<size_t>()});
  return spans;
}

// Compares our output with `expected`, the output of `transformers`. Of errors, only their
// occurrence is compared.
void compare(const ordered_json& expected) {
  SCOPED_TRACE(expected["name"].get<std::string>());
  try {
    const jinja::Rendered rendered =
        ChatTemplate(expected["template"].get<std::string>(), kTokens)
            .render(expected["messages"], options_of(expected["options"]));
    ASSERT_FALSE(expected.contains("error"))
        << "theirs refuses it: " << expected["error"] << "\nours gives " << rendered.text;
    ASSERT_EQ(rendered.text, expected["text"].get<std::string>());
    ASSERT_TRUE(rendered.generations == spans_of(expected["spans"]));
  } catch (const jinja::TemplateError& error) {
    ASSERT_TRUE(expected.contains("error")) << "ours refuses it: " << error.what();
  }
}

TEST(ChatTemplate, RendersAsTransformersDoes) {
  const test::TemporaryDirectory folder;
  const std::string file = (folder.path() / "cases.jsonl").string();
  const std::string command =
      fmt::format("'{0}/.venv/bin/python' '{0}/tests/text/chat_template_oracle.py' '{1}'",
                  COLOSSAL_TEST_SOURCE_DIR, file);
  ASSERT_EQ(std::system(command.c_str()), 0) << "the Python side failed";
  std::ifstream lines(file);
  int num_cases = 0, num_errors = 0, num_spans = 0;
  for (std::string line; std::getline(lines, line); ++num_cases) {
    const ordered_json expected = ordered_json::parse(line);
    num_errors += expected.contains("error");
    num_spans += expected.contains("spans") && !expected["spans"].empty();
    compare(expected);
  }
  EXPECT_GT(num_cases, 2800);
  EXPECT_LT(num_errors, num_cases / 3);
  EXPECT_GT(num_spans, 500);
}

class ChatTemplateFolder : public testing::Test {
 protected:
  std::string render() {
    return ChatTemplate::read(folder_.path())
        ->render({{{"role", "user"}, {"content", "hi"}}}, {})
        .text;
  }
  test::TemporaryDirectory folder_;
};

TEST_F(ChatTemplateFolder, HasNone) {
  EXPECT_FALSE(ChatTemplate::read(folder_.path()).has_value());
}

TEST_F(ChatTemplateFolder, TheFileOfItsOwnComesFirst) {
  folder_.write("tokenizer_config.json",
                R"({"chat_template": "config", "bos_token": {"content": "<b>"}})");
  EXPECT_EQ(render(), "config");
  folder_.write("chat_template.jinja", "{{ bos_token }}{{ messages[0].content }}");
  EXPECT_EQ(render(), "<b>hi");
}

TEST_F(ChatTemplateFolder, ListsNamedTemplates) {
  folder_.write("tokenizer_config.json",
                R"({"chat_template": [{"name": "tool_use", "template": "no"},
                                      {"name": "default", "template": "yes"}]})");
  EXPECT_EQ(render(), "yes");
}

TEST_F(ChatTemplateFolder, NamesTheFileOfAMistake) {
  folder_.write("chat_template.jinja", "a\n{% if %}");
  try {
    ChatTemplate::read(folder_.path());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("chat_template.jinja: the chat template: line 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace colossal::text
