// What of a model's folder a run takes, and what its checkpoints carry on.
#include "colossal/training/saved_model.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "colossal/job/tokenizer_choice.h"
#include "colossal/text/tokenizer/bytes_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace colossal {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A tokenizer.json of two letters, of which "b" ends a text where nothing else is said.
std::string small_tokenizer(const char* end = "</s>") {
  const json vocabulary = {{end, 0}, {"a", 1}, {"b", 2}};
  return json{{"decoder", {{"type", "Fuse"}}},
              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}}
      .dump();
}

class SavedModelTest : public testing::Test {
 protected:
  SavedModelTest() {
    config_.model.path = folder_.path().string();
    describe(json::object());
  }

  // config.json of a tiny GPT-2 with these fields besides.
  void describe(const json& fields) {
    json config = {{"model_type", "gpt2"}, {"vocab_size", 300}, {"n_positions", 16},
                   {"n_embd", 4},          {"n_layer", 1},      {"n_head", 1}};
    config.update(fields);
    folder_.write("config.json", config.dump());
  }
  std::string refusal() const {
    try {
      resolve_tokenizer(config_);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
  SavedModel saved() const {
    const Job job = resolve_job(config_, {});
    return describe_saved_model(job, *text::make_tokenizer(job.tokenizer));
  }

  const test::TemporaryDirectory folder_;
  RunConfig config_;
};

TEST_F(SavedModelTest, TheModelsOwnTokenizerIsTheDefault) {
  EXPECT_EQ(resolve_tokenizer(config_), "bytes");
  folder_.write("tokenizer.json", small_tokenizer());
  EXPECT_EQ(resolve_tokenizer(config_), config_.model.path);
  config_.data.tokenizer = "model";
  EXPECT_EQ(resolve_tokenizer(config_), config_.model.path);
  config_.data.tokenizer = "bytes";
  EXPECT_EQ(resolve_tokenizer(config_), "bytes");
  config_.data.tokenizer = "elsewhere/tokenizer.json";
  EXPECT_EQ(resolve_tokenizer(config_), "elsewhere/tokenizer.json");
}

TEST_F(SavedModelTest, ATokenizerThatIsAskedForAndNotThereIsRefused) {
  config_.data.tokenizer = "model";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("data.tokenizer = \"model\""),
                               HasSubstr(config_.model.path), HasSubstr("has no tokenizer.json")));
  config_.model = {.preset = "gpt2-tiny"};
  EXPECT_THAT(refusal(), HasSubstr("a preset has no tokenizer"));
}

TEST_F(SavedModelTest, ATokenizerOfAnotherKindIsNotTakenForBytes) {
  for (const char* name : {"tokenizer.model", "vocab.json", "qwen.tiktoken", "tekken.json"}) {
    const std::string path = folder_.write(name, "?");
    EXPECT_THAT(refusal(), AllOf(HasSubstr(name), HasSubstr("tokenizer.json"))) << name;
    config_.data.tokenizer = "bytes";
    EXPECT_EQ(refusal(), "accepted");
    config_.data.tokenizer.reset();
    std::filesystem::remove(path);
  }
}

TEST_F(SavedModelTest, NumbersAndFilesOfTheSourceStayAsTheyAre) {
  describe({{"bos_token_id", 1}, {"eos_token_id", {2, 0}}, {"pad_token_id", nullptr}});
  folder_.write("tokenizer.json", small_tokenizer());
  const std::vector<std::pair<std::string, std::string>> others = {
      {"generation_config.json", "{\"eos_token_id\": [2, 0], \"top_k\": 5}"},
      {"tokenizer_config.json", "{\"eos_token\": \"b\",\"extra\": 1}"},
      {"special_tokens_map.json", "{}"},
      {"added_tokens.json", "{}"},
      {"chat_template.jinja", "{{ messages }}"},
      {"additional_chat_templates/tools.jinja", "{{ tools }}"},
      {"tokenizer.model", "sentences"}};
  for (const auto& [name, content] : others) folder_.write(name, content);
  const SavedModel made = saved();
  EXPECT_EQ(made.config["bos_token_id"], 1);
  EXPECT_EQ(made.config["eos_token_id"], json({2, 0}));
  EXPECT_TRUE(made.config.contains("pad_token_id") && made.config["pad_token_id"].is_null());
  EXPECT_EQ(made.files.size(), others.size() + 1);
  for (const auto& [name, content] : others) {
    const std::string* found = text::find_file(made.files, name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(*found, content);
  }
  config_.model.overrides = {{"eos_token_id", 1}};
  EXPECT_EQ(saved().config["eos_token_id"], 1);
}

TEST_F(SavedModelTest, WhatTheSourceLacksIsMadeFromTheTokenizer) {
  folder_.write("tokenizer.json", small_tokenizer());
  const SavedModel made = saved();
  EXPECT_EQ(made.config["bos_token_id"], 0);
  EXPECT_EQ(made.config["eos_token_id"], 0);
  EXPECT_EQ(json::parse(*text::find_file(made.files, "tokenizer_config.json"))["eos_token"],
            "</s>");
  EXPECT_FALSE(text::find_file(made.files, "generation_config.json"));
}

TEST_F(SavedModelTest, WhatARunTeachesReplacesWhatTheFolderSays) {
  describe({{"eos_token_id", 0}});
  folder_.write("tokenizer.json", small_tokenizer());
  folder_.write("generation_config.json", "{\"eos_token_id\": 0, \"top_k\": 5}");
  folder_.write("tokenizer_config.json", "{\"eos_token\": \"</s>\", \"chat_template\": \"old\"}");
  folder_.write("additional_chat_templates/tools.jinja", "old");
  const Job job = resolve_job(config_, {});
  const auto made = [&](const std::string& chat_template) {
    return describe_saved_model(
        job, *text::make_tokenizer(job.tokenizer),
        {.chat_templates = std::vector<text::NamedTemplate>{{text::kDefaultTemplate, chat_template,
                                                             std::filesystem::path()}},
         .end_tokens = {2, 0}});
  };
  const SavedModel taught = made("new");
  EXPECT_EQ(taught.config["eos_token_id"], json({2, 0}));
  const auto fields = [&](const SavedModel& model, const char* file) {
    return json::parse(*text::find_file(model.files, file));
  };
  EXPECT_EQ(fields(taught, "generation_config.json"),
            (json{{"eos_token_id", {2, 0}}, {"top_k", 5}}));
  EXPECT_EQ(fields(taught, "tokenizer_config.json"), (json{{"eos_token", "b"}}));
  EXPECT_EQ(*text::find_file(taught.files, "chat_template.jinja"), "new");
  EXPECT_FALSE(text::find_file(taught.files, "additional_chat_templates/tools.jinja"));
  // Another token would change what this template writes.
  EXPECT_EQ(fields(made("{{ eos_token }}"), "tokenizer_config.json")["eos_token"], "</s>");
}

// Its numbers are another's.
TEST_F(SavedModelTest, AnotherTokenizerHasItsOwnNumbers) {
  describe({{"bos_token_id", 1}, {"eos_token_id", 2}});
  folder_.write("tokenizer.json", small_tokenizer());
  folder_.write("generation_config.json", "{\"eos_token_id\": 2}");
  config_.data.tokenizer = "bytes";
  const SavedModel made = saved();
  EXPECT_EQ(made.config["eos_token_id"], 256);
  EXPECT_EQ(made.files, text::BytesTokenizer().files());
  config_.model.overrides = {{"eos_token_id", 7}};
  EXPECT_EQ(saved().config["eos_token_id"], 7) << "what the run sets is kept";
  config_.model.overrides = nlohmann::json::object();
  // The same one from elsewhere is the model's own.
  const test::TemporaryDirectory elsewhere;
  config_.data.tokenizer = elsewhere.write("my.json", small_tokenizer());
  const SavedModel own = saved();
  EXPECT_EQ(own.config["eos_token_id"], json({0, 2})) << "texts end with 0 in training";
  const std::string* const settings = text::find_file(own.files, "generation_config.json");
  ASSERT_TRUE(settings);
  EXPECT_EQ(json::parse(*settings)["eos_token_id"], json({0, 2}));
}

// Weights in one folder, their tokenizer in another.
TEST_F(SavedModelTest, ATokenizerThatEndsTextsAsTheModelDoesIsTakenForItsOwn) {
  const test::TemporaryDirectory elsewhere;
  config_.data.tokenizer = elsewhere.write("tokenizer.json", small_tokenizer());
  describe({{"bos_token_id", 1}, {"eos_token_id", {2, 0}}});
  EXPECT_EQ(saved().config["eos_token_id"], json({2, 0}));
  describe({{"bos_token_id", 1}, {"eos_token_id", 2}});
  EXPECT_EQ(saved().config["eos_token_id"], 0);
}

}  // namespace
}  // namespace colossal
