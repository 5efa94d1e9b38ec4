#include "colossal/checkpoint/gguf_pipeline.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal::checkpoint {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const json kByteLevel{{"type", "ByteLevel"}, {"add_prefix_space", false}};
const json kSpaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
const json kPrepend{{"type", "Prepend"}, {"prepend", "▁"}};

json changed(json part, const json& fields) {
  part.update(fields);
  return part;
}

json sequence(const char* list, const json& first, const json& second) {
  return {{"type", "Sequence"}, {list, json::array({first, second})}};
}

json metaspace(const char* scheme, bool split) {
  return {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
}

// Returns the name of the pipeline, or "prefix" or "no prefix", or what is refused.
std::string said_of(const json& normalizer, const json& pre_tokenizer) {
  try {
    const GgufPipeline found = read_gguf_pipeline(
        {{"normalizer", normalizer}, {"pre_tokenizer", pre_tokenizer}}, "tokenizer.json");
    return found.named ? found.named->name : found.space_prefix ? "prefix" : "no prefix";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(GgufPipeline, SaysWhatLlamaCppHasNamesFor) {
  EXPECT_EQ(said_of(nullptr, kByteLevel), "gpt-2");
  EXPECT_EQ(
      said_of(nullptr, sequence("pretokenizers", {{"type", "Digits"}, {"individual_digits", true}},
                                kByteLevel)),
      "smollm");
  for (const NamedPipeline& known : named_pipelines()) {
    EXPECT_EQ(said_of(json(known.normalizer), json(known.pre_tokenizer)), known.name);
  }
  EXPECT_EQ(said_of(sequence("normalizers", kPrepend, kSpaces), nullptr), "prefix");
  EXPECT_EQ(said_of(kSpaces, nullptr), "no prefix");
  EXPECT_EQ(said_of(nullptr, metaspace("never", false)), "no prefix");
}

// As the tokenizer of bytes that checkpoints of presets have.
TEST(GgufPipeline, WithoutMergesWordsMayBeginAnywhere) {
  const json tokenizer{{"normalizer", nullptr},
                       {"pre_tokenizer", changed(kByteLevel, {{"use_regex", false}})},
                       {"model", {{"merges", json::array()}}}};
  EXPECT_EQ(read_gguf_pipeline(tokenizer, "tokenizer.json").named->name, "gpt-2");
}

TEST(GgufPipeline, RefusesTheRestByName) {
  EXPECT_THAT(said_of(nullptr, changed(kByteLevel, {{"add_prefix_space", true}})),
              HasSubstr("pre_tokenizer is ByteLevel (add_prefix_space = true"));
  EXPECT_THAT(said_of(nullptr, changed(kByteLevel, {{"use_regex", false}})),
              HasSubstr("use_regex = false"));
  EXPECT_THAT(said_of({{"type", "NFKC"}}, kByteLevel), HasSubstr("normalizer is NFKC"));
  EXPECT_THAT(said_of({{"type", "Lowercase"}}, kByteLevel), HasSubstr("normalizer is Lowercase"));
  const json qwen2(pipeline_of("qwen2", "").pre_tokenizer);
  EXPECT_THAT(said_of(nullptr, qwen2), HasSubstr("with this pre_tokenizer it can say NFC"));
  for (const char* scheme : {"first", "always"}) {
    EXPECT_THAT(said_of(nullptr, metaspace(scheme, false)),
                HasSubstr(std::string("prepend_scheme = \"") + scheme));
  }
  EXPECT_THAT(said_of(nullptr, metaspace("never", true)), HasSubstr("split = true"));
  EXPECT_THAT(said_of(kPrepend, nullptr), HasSubstr("normalizer is Prepend"));
  EXPECT_THAT(said_of(kSpaces, {{"type", "Whitespace"}}), HasSubstr("is Whitespace"));
}

TEST(GgufPipeline, MergesThatMakeATokenAreFound) {
  const std::unordered_map<std::string, size_t> known{{"a", 0},  {"b", 1},  {"c", 2},
                                                      {"ab", 3}, {"bc", 4}, {"abc", 5}};
  const std::vector<std::string> texts{"a", "ab", "bc", "abc", "xy"};
  EXPECT_EQ(find_unmade_token(texts, {{"a", "b"}, {"b", "c"}, {"ab", "c"}}, known), "");
  // b and c come together first, and nothing joins a with both
  EXPECT_EQ(find_unmade_token(texts, {{"b", "c"}, {"a", "b"}, {"ab", "c"}}, known), "abc");
  EXPECT_EQ(find_unmade_token(texts, {{"a", "b"}, {"ab", "c"}}, known), "bc");
  const std::vector<std::string> tokens{"a", "b", "c", "ab", "bc", "abc"};
  EXPECT_EQ(merges_of_scores(tokens, {-9, -9, -9, -1, -2, -3}, std::vector<bool>(6, true)),
            (Merges{{"a", "b"}, {"b", "c"}, {"a", "bc"}, {"ab", "c"}}));
}

}  // namespace
}  // namespace colossal::checkpoint
