#include "colossal/text/model_folder.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "colossal/text/taught_text.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;

constexpr int32_t kEnd = 265;  // of small_tokenizer()

class ModelFolderTest : public testing::Test {
 protected:
  ModelFolderTest() { model_.write("tokenizer.json", small_tokenizer().dump()); }
  std::vector<int32_t> ends() const {
    const ModelFolder folder(model_.path());
    return folder.end_tokens(*folder.tokenizer());
  }
  const test::TemporaryDirectory model_, adapter_;
};

TEST_F(ModelFolderTest, TextsEndAsGenerationConfigThenConfigThenTheTokenizerSay) {
  EXPECT_THAT(ends(), ElementsAre(kEnd));
  model_.write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(ends(), ElementsAre(7));
  model_.write("config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_THAT(ends(), ElementsAre(7, 9));
  model_.write("generation_config.json", R"({"eos_token_id": null, "temperature": 0.6})");
  EXPECT_THAT(ends(), ElementsAre(7, 9));
  model_.write("generation_config.json", R"({"eos_token_id": [3, 1]})");
  EXPECT_THAT(ends(), ElementsAre(3, 1));
  // What the tokenizer names ends a text too.
  const auto tokenizer = ModelFolder(model_.path()).tokenizer();
  model_.write("tokenizer_config.json", json{{"eos_token", token_text(kEnd, *tokenizer)}}.dump());
  EXPECT_THAT(ends(), ElementsAre(3, 1, kEnd));
}

TEST_F(ModelFolderTest, EndsThatTheModelCannotGiveAreLeftOut) {
  model_.write("config.json", R"({"eos_token_id": 7, "vocab_size": 300})");
  model_.write("generation_config.json", R"({"eos_token_id": [5000, 299]})");
  EXPECT_THAT(ends(), ElementsAre(299));
  model_.write("generation_config.json", R"({"eos_token_id": 300})");
  EXPECT_THAT(ends(), ElementsAre(7));
}

TEST_F(ModelFolderTest, EndsThatAreNoTokensAreRefused) {
  for (const char* end : {"\"</s>\"", "-1", "2.5", "[1, null]", "{}"}) {
    model_.write("config.json", fmt::format(R"({{"eos_token_id": {}}})", end));
    EXPECT_THROW(ends(), ConfigError) << end;
  }
}

TEST_F(ModelFolderTest, AnAdaptersFilesTakeThePlaceOfTheModels) {
  const ModelFolder both(model_.path(), adapter_.path());
  model_.write("chat_template.jinja", "model");
  model_.write("generation_config.json", R"({"top_k": 3})");
  EXPECT_EQ(both.tokenizer_folder(), model_.path());
  EXPECT_EQ(both.chat_template()->source(), "model");
  EXPECT_EQ(both.generation_config().fields["top_k"], 3);
  adapter_.write("chat_template.jinja", "adapter");
  adapter_.write("generation_config.json", R"({"top_k": 4})");
  EXPECT_EQ(both.chat_template()->source(), "adapter");
  EXPECT_EQ(both.generation_config().fields["top_k"], 4);
  EXPECT_EQ(*find_file(both.files(), "chat_template.jinja"), "adapter");
  adapter_.write("tokenizer.json", small_tokenizer().dump());
  EXPECT_EQ(both.tokenizer_folder(), adapter_.path());
}

TEST_F(ModelFolderTest, SettingsOfOlderFoldersAreInConfigJson) {
  model_.write("config.json", R"({"num_beams": 4, "max_length": 20})");
  const json fields = ModelFolder(model_.path()).generation_config().fields;
  EXPECT_EQ(fields.value("num_beams", 0), 4);
  EXPECT_FALSE(fields.contains("max_length"));  // the value that means nothing
}

TEST_F(ModelFolderTest, TheEndOfATurnIsTheFirstSpecialTokenAfterTheAnswer) {
  const auto tokenizer = ModelFolder(model_.path()).tokenizer();
  const std::string end = token_text(kEnd, *tokenizer);
  const auto found = [&](const std::string& source) {
    return end_of_turn(ChatTemplate(source), *tokenizer);
  };
  EXPECT_EQ(found("{% for m in messages %}" + end + "{{ m.content }} " + end + "\n{% endfor %}"),
            kEnd);
  EXPECT_FALSE(found("{% for m in messages %}" + end + "{{ m.content }}\n{% endfor %}"));
  EXPECT_FALSE(found("{{ raise_exception('no') }}"));
}

}  // namespace
}  // namespace colossal::text
