#include "colossal/text/tokenizer/tokenizer_definition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/word_model.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::text {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& content) {
  try {
    const TokenizerDefinition definition =
        read_tokenizer_definition(content, "folder/tokenizer.json");
    make_word_model(definition, "folder/tokenizer.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// Returns the error for the small tokenizer with the value at a JSON pointer replaced.
std::string refusal_with(const std::string& pointer, const json& value) {
  json definition = small_tokenizer();
  definition[json::json_pointer(pointer)] = value;
  return refusal(definition.dump());
}

TEST(TokenizerDefinition, AcceptsTheSmallOne) {
  EXPECT_EQ(refusal(small_tokenizer().dump()), "accepted");
}

TEST(TokenizerDefinition, NamesFileAndOffsetOfMalformedJson) {
  EXPECT_THAT(refusal(R"({"model": })"),
              AllOf(HasSubstr("folder/tokenizer.json"), HasSubstr("column 11")));
  EXPECT_THAT(refusal(""), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("{\"model\": \"\xFF\"}"), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("[1e999]"), HasSubstr("folder/tokenizer.json"));
  EXPECT_THAT(refusal("[]"), HasSubstr("the file is of type array; an object is needed"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(R"({"model": {}, "model": {}})"), HasSubstr("twice"));
}

TEST(TokenizerDefinition, NamesTheKindItDoesNotSupport) {
  EXPECT_THAT(refusal_with("/model/type", "WordLevel"),
              AllOf(HasSubstr("model.type"), HasSubstr("WordLevel")));
  EXPECT_THAT(refusal_with("/pre_tokenizer/type", "UnicodeScripts"),
              HasSubstr("\"UnicodeScripts\""));
  EXPECT_THAT(refusal_with("/pre_tokenizer", nullptr),
              HasSubstr("decoder.type is \"ByteLevel\", which the pre_tokenizer has not"));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "ByteLevel"}}),
              HasSubstr("normalizer.type is \"ByteLevel\""));
  EXPECT_THAT(refusal_with("/decoder/type", "WordPiece"),
              HasSubstr("decoder.type is \"WordPiece\""));
  EXPECT_THAT(refusal_with("/model/dropout", 0.1), HasSubstr("model.dropout is set"));
  EXPECT_THAT(refusal_with("/model/end_of_word_suffix", "</w>"),
              HasSubstr("model.end_of_word_suffix is set"));
  const json merged = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Merged"}};
  EXPECT_THAT(refusal_with("/pre_tokenizer", merged), HasSubstr("is \"Merged\"; \"Isolated\""));
  const json broken = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  EXPECT_THAT(refusal_with("/pre_tokenizer", broken), HasSubstr("the regular expression (a"));
}

// Returns the small tokenizer with a Unigram model.
json unigram_tokenizer() {
  json definition = small_tokenizer();
  definition["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  definition["decoder"] = definition["pre_tokenizer"];
  definition["added_tokens"] = json::array();
  definition["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", json::array()}};
  for (const char* token : {"<unk>", "\u2581", "a"}) {
    definition["model"]["vocab"].push_back(json::array({token, -1.5}));
  }
  return definition;
}

TEST(TokenizerDefinition, NamesWhatIsWrongWithAUnigramModel) {
  EXPECT_EQ(refusal(unigram_tokenizer().dump()), "accepted");
  const auto with = [](const std::string& pointer, const json& value) {
    json definition = unigram_tokenizer();
    definition[json::json_pointer(pointer)] = value;
    return refusal(definition.dump());
  };
  EXPECT_THAT(with("/model/unk_id", nullptr), HasSubstr("model.unk_id is missing"));
  EXPECT_THAT(with("/model/unk_id", 3), HasSubstr("model.unk_id is 3, but there are 3 tokens"));
  EXPECT_THAT(with("/model/vocab", json::object()), HasSubstr("model.vocab is missing or no list"));
  EXPECT_THAT(with("/model/vocab/2/0", "\u2581"), HasSubstr("model.vocab[2] repeats the token"));
  EXPECT_THAT(with("/model/vocab/2", json::array({"a"})),
              HasSubstr("model.vocab[2] is not a token with its score"));
  EXPECT_THAT(with("/model/vocab/2/1", nullptr), HasSubstr("model.vocab[2][1] is missing"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "ByteLevel"}}),
              HasSubstr("\"ByteLevel\", which is supported with model.type = \"BPE\" only"));
  const json charsmap = {{"type", "Precompiled"}, {"precompiled_charsmap", "a*=="}};
  EXPECT_THAT(with("/normalizer", charsmap), HasSubstr("precompiled_charsmap is not base64"));
  json definition = unigram_tokenizer();
  definition["pre_tokenizer"]["prepend_scheme"] = "first";
  definition["normalizer"] = {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};
  EXPECT_EQ(refusal(definition.dump()), "accepted");
  definition["normalizer"]["strip_left"] = true;
  EXPECT_THAT(refusal(definition.dump()), HasSubstr("\"first\" after a normalizer that may drop"));
}

// For tokenizers whose tokens are text, as of Llama 2.
TEST(TokenizerDefinition, NamesTheStepThatItDoesNotSupport) {
  json definition = small_tokenizer();
  definition["pre_tokenizer"] = nullptr;
  definition["model"]["byte_fallback"] = true;
  const auto with_decoder = [&](const json& decoder) {
    definition["decoder"] = decoder;
    return refusal(definition.dump());
  };
  const json space = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  const json fuse = {{"type", "Fuse"}}, bytes = {{"type", "ByteFallback"}};
  const auto strip = [](int start, int stop) {
    return json{{"type", "Strip"}, {"content", " "}, {"start", start}, {"stop", stop}};
  };
  const auto sequence = [](const std::vector<json>& steps) {
    return json{{"type", "Sequence"}, {"decoders", steps}};
  };
  EXPECT_EQ(with_decoder(sequence({space, bytes, fuse, strip(1, 0)})), "accepted");
  EXPECT_THAT(with_decoder(nullptr), HasSubstr("decoder is missing"));
  EXPECT_THAT(with_decoder({{"type", "CTC"}}), HasSubstr("decoder.type is \"CTC\""));
  EXPECT_THAT(with_decoder(sequence({bytes, space})),
              HasSubstr("decoder.decoders[1] (\"Replace\") comes too late"));
  EXPECT_THAT(with_decoder(sequence({strip(1, 0), fuse})), HasSubstr("is \"Strip\""));
  EXPECT_THAT(with_decoder(sequence({fuse, strip(2, 0)})), HasSubstr("start = 2, stop = 0"));
  EXPECT_THAT(with_decoder(sequence({fuse, strip(1, 1)})), HasSubstr("start = 1, stop = 1"));
  with_decoder(fuse);
  const json first = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  definition["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, first}}};
  EXPECT_EQ(refusal(definition.dump()), "accepted");
  definition["normalizer"] = {{"type", "NFC"}};
  EXPECT_THAT(refusal(definition.dump()),
              HasSubstr("pre_tokenizer.pretokenizers[1].prepend_scheme is \"first\" after"));
  definition["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "__"}};
  EXPECT_THAT(refusal(definition.dump()), HasSubstr("is \"__\", not one character"));
}

TEST(TokenizerDefinition, NamesThePostProcessorThatItDoesNotSupport) {
  const auto with_parts = [](const std::vector<json>& parts) {
    return json{{"type", "TemplateProcessing"},
                {"single", parts},
                {"special_tokens", {{"<s>", {{"ids", {1}}}}}}};
  };
  const auto special = [](const char* id) { return json{{"SpecialToken", {{"id", id}}}}; };
  const json text = {{"Sequence", {{"id", "A"}}}};
  const json sound = with_parts({special("<s>"), text});
  EXPECT_EQ(refusal_with("/post_processor", sound), "accepted");
  EXPECT_THAT(refusal_with("/post_processor", {{"type", "Other"}}),
              HasSubstr("post_processor.type is \"Other\""));
  EXPECT_THAT(refusal_with("/post_processor", with_parts({special("<s>")})),
              HasSubstr("has the text 0 times"));
  EXPECT_THAT(refusal_with("/post_processor", with_parts({special("</s>"), text})),
              HasSubstr("special_tokens.</s> is missing"));
  EXPECT_THAT(
      refusal_with("/post_processor", {{"type", "Sequence"}, {"processors", {sound, sound}}}),
      HasSubstr("comes after another one that adds tokens"));
}

TEST(TokenizerDefinition, FallsBackToBytesOnlyWhereByteLevelDoesNot) {
  EXPECT_EQ(refusal_with("/model/byte_fallback", true), "accepted");  // all bytes are there
  json definition = small_tokenizer();
  definition["model"]["byte_fallback"] = true;
  definition["model"]["vocab"].erase("A");
  definition["model"]["vocab"]["AA"] = 'A';
  EXPECT_THAT(refusal(definition.dump()), HasSubstr("model.byte_fallback is true"));
}

TEST(TokenizerDefinition, NamesABadNumber) {
  EXPECT_THAT(refusal_with("/model/vocab/he", 257), HasSubstr("is 257, as is"));
  EXPECT_THAT(refusal_with("/model/vocab/he", -1), HasSubstr(R"(model.vocab["he"] is -1)"));
  EXPECT_THAT(refusal_with("/model/vocab/he", 1 << 25),
              HasSubstr("is 33554432, outside 0 to 16777216"));
  EXPECT_THAT(refusal_with("/model/vocab/he", UINT64_MAX), HasSubstr("outside"));
  EXPECT_THAT(refusal_with("/model/vocab/he", 2.5), HasSubstr("a whole number is needed"));
  EXPECT_THAT(refusal_with("/model/vocab/he", "2"), HasSubstr("is of type string"));
  EXPECT_THAT(refusal_with("/added_tokens/0/id", 300),
              HasSubstr("is 300, but `tokenizers` would give it 265"));
}

TEST(TokenizerDefinition, NamesABadMerge) {
  EXPECT_THAT(refusal_with("/model/merges/2", "he xx"),
              AllOf(HasSubstr("merges[2]"), HasSubstr("\"xx\"")));
  EXPECT_THAT(refusal_with("/model/merges/2", "l h"), HasSubstr("needs the token \"lh\""));
  EXPECT_THAT(refusal_with("/model/merges/2", "hell"), HasSubstr("model.merges[2] is \"hell\""));
  EXPECT_THAT(refusal_with("/model/merges/2", "a b c"), HasSubstr("model.merges[2]"));
  EXPECT_THAT(refusal_with("/model/merges/2", 7), HasSubstr("is of type number"));
  EXPECT_THAT(refusal_with("/model/merges/2", {"h", "e", "l"}), HasSubstr("has 3 tokens"));
  EXPECT_THAT(refusal_with("/model/merges/2", {"h", 1}), HasSubstr("model.merges[2][1]"));
  EXPECT_THAT(refusal_with("/model/merges", "h e"),
              HasSubstr("model.merges is missing or no list"));
}

TEST(TokenizerDefinition, NamesWhatIsMissing) {
  EXPECT_THAT(refusal("{}"), HasSubstr("model"));
  EXPECT_THAT(refusal_with("/model/vocab", nullptr), HasSubstr("model.vocab is missing"));
  EXPECT_THAT(refusal_with("/added_tokens/0/content", nullptr),
              HasSubstr("added_tokens[0].content is missing"));
  json definition = small_tokenizer();
  definition["model"]["vocab"].erase("A");
  definition["model"]["vocab"]["AA"] = 'A';
  definition["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(refusal(definition.dump()), HasSubstr("model.unk_token \"<unk>\""));
}

}  // namespace
}  // namespace colossal::text
