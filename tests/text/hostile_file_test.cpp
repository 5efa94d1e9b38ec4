// Invalid files are refused with an error, or work: nothing crashes or hangs.
#include <gtest/gtest.h>

#include <random>

#include "colossal/text/tokenizer/tokenizer.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::text {
namespace {

using nlohmann::json;

// Returns a tokenizer.json with all parts that are read.
std::string rich_tokenizer() {
  json definition = small_tokenizer();
  definition["normalizer"] = {{"type", "NFC"}};
  definition["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern",
          {{"Regex", R"((?i:'s|'ll)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+)"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}}}}};
  definition["added_tokens"].push_back({{"id", 266},
                                        {"content", "[\u00E9]"},
                                        {"lstrip", true},
                                        {"rstrip", true},
                                        {"single_word", true}});
  return definition.dump();
}

// Returns a tokenizer.json of another model, whose tokens are text.
json rich_text_tokenizer(const char* model_type) {
  json definition = small_tokenizer();
  definition["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "BertNormalizer"}, {"lowercase", true}},
        {{"type", "NFKC"}},
        {{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAAAABhYgA="}},
        {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}}}};
  const json metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  definition["pre_tokenizer"] = {{"type", "Sequence"},
                                 {"pretokenizers",
                                  {{{"type", "WhitespaceSplit"}},
                                   {{"type", "Punctuation"}, {"behavior", "MergedWithNext"}},
                                   metaspace}}};
  definition["decoder"] = metaspace;
  definition["added_tokens"][0]["id"] = 7;
  if (std::string_view(model_type) == "Unigram") {
    definition["model"] = {{"vocab", json::array()}, {"unk_id", 0}, {"byte_fallback", true}};
    for (const char* token : {"<unk>", "\u2581", "he", "ll", "llo", "wor", "ld"}) {
      definition["model"]["vocab"].push_back(json::array({token, -1.5}));
    }
  } else {
    definition["model"] = {{"vocab",
                            {{"[UNK]", 0},
                             {"\u2581", 1},
                             {"he", 2},
                             {"##ll", 3},
                             {"##o", 4},
                             {"wor", 5},
                             {"##ld", 6}}},
                           {"unk_token", "[UNK]"},
                           {"continuing_subword_prefix", "##"},
                           {"max_input_chars_per_word", 20}};
  }
  definition["model"]["type"] = model_type;
  return definition;
}

std::string mutated(std::string content, std::mt19937& random) {
  static const std::vector<std::string> fragments = {
      "null",       "-1",      "1e400", "{}",   "[]",        "\"",
      "\\u0000",    "\\ud800", "(?i:",  "[^",   "{0,65535}", "\xFF",
      "4294967296", "*",       "true",  "\"\"", ")+",        "99999999999999999999999999"};
  for (uint32_t edit = 0, edits = 1 + random() % 4; edit < edits; ++edit) {
    const size_t at = random() % content.size();
    const size_t length = std::min<size_t>(random() % 20, content.size() - at);
    switch (random() % 6) {
      case 0:
        content[at] = static_cast<char>(random());
        break;
      case 1:
        content.erase(at, length);
        break;
      case 2:
        content.insert(at, content.substr(random() % content.size(), length));
        break;
      case 3:
        content.insert(at, fragments[random() % fragments.size()]);
        break;
      case 4:
        content.replace(at, length, fragments[random() % fragments.size()]);
        break;
      case 5:
        content.resize(std::max<size_t>(1, random() % 50 == 0 ? at : content.size()));
        break;
    }
  }
  return content;
}

// Replaces some values of the parsed file, so that deeper checks are reached than by editing bytes.
std::string with_other_values(const json& original, std::mt19937& random) {
  static const std::vector<json> values = {nullptr,
                                           true,
                                           -1,
                                           0,
                                           256,
                                           1 << 24,
                                           2.5,
                                           "",
                                           "a b",
                                           "<|endoftext|>",
                                           json::array(),
                                           json::object(),
                                           "(a|b)*+",
                                           "[\\s\\S]{1,3}",
                                           "\\p{L}"};
  const json flat = original.flatten();
  json changed = flat;
  for (int edit = 0; edit < 2; ++edit) {
    auto entry = changed.begin();
    // Most entries are in the vocabulary: chooses the others more often.
    do {
      entry = std::next(changed.begin(), static_cast<long>(random() % changed.size()));
    } while (entry.key().starts_with("/model/vocab") && random() % 50 != 0);
    const json& value = values[random() % values.size()];
    *entry = value.is_structured() ? json(nullptr) : value;
  }
  return changed.unflatten().dump();
}

class HostileFile : public testing::Test {
 protected:
  // Loads and uses the file. Returns whether it was accepted.
  bool survives(const std::string& content) {
    const std::string path = folder_.write("tokenizer.json", content);
    try {
      const auto tokenizer = make_tokenizer(path);
      const auto tokens =
          tokenizer->encode("he'LL say hello  world 2024\r\n [e\u0301] <|endoftext|>\u3000x");
      tokenizer->decode(tokens);
      return true;
    } catch (const ConfigError&) {
      return false;
    } catch (const IoError&) {
      return false;
    }
  }
  test::TemporaryDirectory folder_;
  std::mt19937 random_{20240607};
};

TEST_F(HostileFile, EditedBytes) {
  const std::string original = rich_tokenizer();
  ASSERT_TRUE(survives(original));
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string content = mutated(original, random_);
    SCOPED_TRACE(round);
    ASSERT_NO_THROW(accepted += survives(content)) << content;
  }
  EXPECT_GT(accepted, 50);  // otherwise the edits are too coarse to test much
}

TEST_F(HostileFile, EditedValues) {
  const json original = json::parse(rich_tokenizer());
  int accepted = 0;
  for (int round = 0; round < 2500; ++round) {
    const std::string content = with_other_values(original, random_);
    ASSERT_NO_THROW(accepted += survives(content)) << content;
  }
  EXPECT_GT(accepted, 50);
}

TEST_F(HostileFile, EditedValuesOfOtherModels) {
  for (const char* model : {"Unigram", "WordPiece"}) {
    const json original = rich_text_tokenizer(model);
    ASSERT_TRUE(survives(original.dump())) << model;
    int accepted = 0;
    for (int round = 0; round < 500; ++round) {
      const std::string content = with_other_values(original, random_);
      ASSERT_NO_THROW(accepted += survives(content)) << content;
    }
    EXPECT_GT(accepted, 5);
  }
}

TEST_F(HostileFile, Truncated) {
  const std::string original = rich_tokenizer();
  for (size_t length = 0; length < original.size(); length += 7) {
    ASSERT_FALSE(survives(original.substr(0, length))) << length;
  }
}

TEST_F(HostileFile, ManyCuts) {
  json definition = json::parse(rich_tokenizer());
  json& cuts = definition["pre_tokenizer"]["pretokenizers"];
  const json cut = cuts[0], byte_level = cuts[1];
  cuts = std::vector<json>(100000, cut);
  cuts.push_back(byte_level);
  EXPECT_FALSE(survives(definition.dump()));
}

}  // namespace
}  // namespace colossal::text
