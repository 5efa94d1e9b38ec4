#include "colossal/text/tokenizer/pipeline_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class PipelineTokenizerTest : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> load(const json& definition) {
    return make_tokenizer(folder_.write("tokenizer.json", definition.dump()));
  }
  test::TemporaryDirectory folder_;
};

constexpr int32_t kHello = 259, kWorld = 264, kEndOfText = 265;

TEST_F(PipelineTokenizerTest, MergesTheBestPairFirst) {
  const auto tokenizer = load(small_tokenizer());
  EXPECT_THAT(tokenizer->encode("hello world"), ElementsAre(kHello, kWorld));
  EXPECT_THAT(tokenizer->encode("helol"), ElementsAre(256, 'l', 'o', 'l'));
  EXPECT_THAT(tokenizer->encode("lll"), ElementsAre(257, 'l'));
  EXPECT_THAT(tokenizer->encode("a<|endoftext|>hello"), ElementsAre('a', kEndOfText, kHello));
  EXPECT_THAT(tokenizer->encode(""), ElementsAre());
  EXPECT_FALSE(tokenizer->is_concatenative());
  EXPECT_EQ(tokenizer->vocabulary_size(), 266);
  EXPECT_EQ(tokenizer->end_of_text(), kEndOfText);
}

TEST_F(PipelineTokenizerTest, DecodesWhatItEncodes) {
  const auto tokenizer = load(small_tokenizer());
  for (const std::string text :
       {"hello  world\r\n", "na\u00EFve \U0001F600<|endoftext|>", "\t\u00A0'LL"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{'a', 266, -1, 1 << 30, 0xC3}), "a\xC3");
}

TEST_F(PipelineTokenizerTest, NamesTheByteThatIsNotUtf8) {
  const auto tokenizer = load(small_tokenizer());
  try {
    tokenizer->encode("hello\xFFworld");
    FAIL();
  } catch (const InvalidText& error) {
    EXPECT_EQ(error.offset, 5);
    EXPECT_THAT(error.what(), HasSubstr("offset 5"));
  }
}

TEST_F(PipelineTokenizerTest, PairsAndLinesOfMergesAreTheSame) {
  json definition = small_tokenizer();
  const auto by_lines = load(definition)->encode("hello world");
  for (json& merge : definition["model"]["merges"]) {
    const std::string line = merge;
    const size_t space = line.find(' ');
    merge = {line.substr(0, space), line.substr(space + 1)};
  }
  EXPECT_EQ(load(definition)->encode("hello world"), by_lines);
}

TEST_F(PipelineTokenizerTest, AWordThatIsATokenIsTakenWhole) {
  json definition = small_tokenizer();
  definition["model"]["merges"] = json::array();
  EXPECT_THAT(load(definition)->encode("ll"), ElementsAre('l', 'l'));
  definition["model"]["ignore_merges"] = true;
  EXPECT_THAT(load(definition)->encode("ll"), ElementsAre(257));
}

TEST_F(PipelineTokenizerTest, EndOfTextIsWhatTheFilesSay) {
  json definition = small_tokenizer();
  definition["added_tokens"][0]["content"] = "<|end_of_text|>";
  EXPECT_EQ(load(definition)->end_of_text(), kEndOfText);
  definition["added_tokens"][0]["content"] = "<end>";
  try {
    load(definition);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("<|endoftext|>"));
    EXPECT_THAT(error.what(), HasSubstr("<|end_of_text|>"));
  }
  folder_.write("tokenizer_config.json", R"({"eos_token": "<end>"})");
  EXPECT_EQ(load(definition)->end_of_text(), kEndOfText);
  folder_.write("tokenizer_config.json", R"({"eos_token": {"content": "<end>"}})");
  EXPECT_EQ(load(definition)->end_of_text(), kEndOfText);
  folder_.write("tokenizer_config.json", R"({"eos_token": "hello"})");
  EXPECT_EQ(load(definition)->end_of_text(), kHello);
  folder_.write("tokenizer_config.json", R"({"eos_token": 3})");
  EXPECT_THROW(load(definition), ConfigError);
}

// The end of text comes from the first file that names it; a well-known name is the last resort.
TEST_F(PipelineTokenizerTest, EndOfTextIsTheModelsOwn) {
  const json definition = small_tokenizer();
  folder_.write("config.json", R"({"eos_token_id": 264})");
  EXPECT_EQ(load(definition)->end_of_text(), kWorld);
  folder_.write("config.json", R"({"eos_token_id": [259, 264]})");
  EXPECT_EQ(load(definition)->end_of_text(), kHello);
  folder_.write("config.json", R"({"eos_token_id": 5000})");  // no token of this tokenizer
  EXPECT_EQ(load(definition)->end_of_text(), kEndOfText);
  folder_.write("config.json", R"({"eos_token_id": 264})");
  folder_.write("special_tokens_map.json", R"({"eos_token": {"content": "hello"}})");
  EXPECT_EQ(load(definition)->end_of_text(), kHello);
  folder_.write("tokenizer_config.json", R"({"eos_token": "hell"})");
  EXPECT_EQ(load(definition)->end_of_text(), kHello);
  folder_.write("special_tokens_map.json", "{}");
  EXPECT_EQ(load(definition)->end_of_text(), 258);
}

// Tokens that the files beside the tokenizer.json define get the next numbers; other numbers than
// those are refused, because the model would be given other tokens than it knows.
TEST_F(PipelineTokenizerTest, OtherFilesAddTokens) {
  const json definition = small_tokenizer();
  const int32_t next = load(definition)->vocabulary_size();
  folder_.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  const auto named = load(definition);
  EXPECT_EQ(named->end_of_text(), next);
  EXPECT_EQ(named->encode("<|im_end|>"), std::vector{next});
  EXPECT_EQ(named->vocabulary_size(), next + 1);
  const auto refusal = [&](const std::string& file, const std::string& content) -> std::string {
    folder_.write("tokenizer_config.json", "{}");
    folder_.write(file, content);
    try {
      load(definition);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal("tokenizer_config.json",
                      R"({"added_tokens_decoder": {"4000": {"content": "<|im_end|>"}}})"),
              HasSubstr("\"<|im_end|>\" the number 4000, but beside this tokenizer.json it would"));
  EXPECT_THAT(refusal("added_tokens.json", R"({"<|im_end|>": 5000})"),
              HasSubstr("added_tokens.json"));
}

TEST_F(PipelineTokenizerTest, CarriesItsFilesAlong) {
  const std::string content = small_tokenizer().dump();
  const auto made = load(small_tokenizer())->files();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0], std::pair(std::string("tokenizer.json"), content));
  EXPECT_EQ(json::parse(made[1].second)["eos_token"], "<|endoftext|>");
  folder_.write("tokenizer_config.json", "{}");
  folder_.write("merges.txt", "h e\n");
  using File = std::pair<std::string, std::string>;
  EXPECT_THAT(load(small_tokenizer())->files(),
              ElementsAre(File("tokenizer.json", content), File("tokenizer_config.json", "{}"),
                          File("merges.txt", "h e\n")));
}

TEST_F(PipelineTokenizerTest, FingerprintTellsTokenizersApart) {
  json definition = small_tokenizer();
  const std::string first = load(definition)->fingerprint();
  EXPECT_EQ(load(definition)->fingerprint(), first);
  EXPECT_NE(make_tokenizer("bytes")->fingerprint(), first);
  folder_.write("tokenizer_config.json", R"({"split_special_tokens": true})");
  EXPECT_NE(load(definition)->fingerprint(), first);
  folder_.write("tokenizer_config.json", "{}");
  definition["model"]["ignore_merges"] = true;
  EXPECT_NE(load(definition)->fingerprint(), first);
}

TEST_F(PipelineTokenizerTest, NamesAFileThatIsNotThere) {
  EXPECT_THROW(make_tokenizer("no/such/tokenizer.json"), ConfigError);
  EXPECT_THROW(make_tokenizer(folder_.path().string()), ConfigError);
  EXPECT_THROW(make_tokenizer(std::string(10000, 'x')), ConfigError);
  EXPECT_THROW(make_tokenizer(folder_.write("tokenizer.json", "")), ConfigError);
  std::filesystem::create_directories(folder_.path() / "inner" / "tokenizer.json");
  EXPECT_THROW(make_tokenizer((folder_.path() / "inner").string()), IoError);
}

TEST_F(PipelineTokenizerTest, LongWordsTakeAboutLinearTime) {
  const auto tokenizer = load(small_tokenizer());
  std::mt19937 random(1);
  std::string word(1 << 20, ' ');
  for (char& c : word) c = "helowrd"[random() % 7];
  for (const std::string& text : {word, std::string(1 << 20, 'l'), std::string(1 << 20, ' '),
                                  std::string(1 << 20, '\n'), std::string(1 << 20, '!')}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST_F(PipelineTokenizerTest, ManyThreadsMayEncodeAtOnce) {
  const auto tokenizer = load(small_tokenizer());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += " hello world " + std::to_string(i * 7919);
  const auto expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::vector<int> equal(8);
  for (int& result : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) result += tokenizer->encode(text) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, testing::Each(10));
}

}  // namespace
}  // namespace colossal::text
