#include "colossal/text/tokenizer/streaming_decoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "colossal/text/tokenizer/bytes_tokenizer.h"
#include "colossal/text/utf8.h"
#include "tests/support/temporary_directory.h"

namespace colossal::text {
namespace {

std::vector<std::string> stream(std::string_view bytes) {
  const BytesTokenizer tokenizer;
  StreamingDecoder decoder(tokenizer);
  std::vector<std::string> parts;
  for (int32_t token : tokenizer.encode(bytes)) parts.push_back(decoder.push(token));
  parts.push_back(decoder.flush());
  return parts;
}

using Parts = std::vector<std::string>;

TEST(StreamingDecoder, HoldsBackIncompleteCharacters) {
  EXPECT_EQ(stream("a\u00E9\U0001F600!"),
            (Parts{"a", "", "\u00E9", "", "", "", "\U0001F600", "!", ""}));
}

TEST(StreamingDecoder, ReplacesWhatIsNoCharacter) {
  EXPECT_EQ(stream("\xFF"), (Parts{"\uFFFD", ""}));
  EXPECT_EQ(stream("\xF0\x9F!"), (Parts{"", "", "\uFFFD!", ""}));
  EXPECT_EQ(stream("\xE2\x82"), (Parts{"", "", "\uFFFD"}));
  EXPECT_EQ(stream("\xED\xA0\x80"), (Parts{"", "\uFFFD\uFFFD", "\uFFFD", ""}));
}

TEST(StreamingDecoder, FlushStartsAfresh) {
  const BytesTokenizer tokenizer;
  StreamingDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(256), "<|endoftext|>");
  EXPECT_EQ(decoder.flush(), "");
}

// The decoder of Llama 2 drops a space at the beginning of a text, and has byte fallback.
TEST(StreamingDecoder, KeepsTheSpaceAfterAPrompt) {
  const auto step = [](const char* type) { return nlohmann::json{{"type", type}}; };
  nlohmann::json space = step("Replace"), strip = step("Strip");
  space.update({{"pattern", {{"String", "\u2581"}}}, {"content", " "}});
  strip.update({{"content", " "}, {"start", 1}, {"stop", 0}});
  nlohmann::json vocabulary = {{"</s>", 0}, {"\u2581", 1}, {"a", 2}, {"\u2581a", 3}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = 4 + byte;
  const nlohmann::json definition = {
      {"decoder",
       {{"type", "Sequence"}, {"decoders", {space, step("ByteFallback"), step("Fuse"), strip}}}},
      {"model",
       {{"type", "BPE"},
        {"byte_fallback", true},
        {"vocab", vocabulary},
        {"merges", {"\u2581 a"}}}}};
  const test::TemporaryDirectory folder;
  const auto tokenizer = make_tokenizer(folder.write("tokenizer.json", definition.dump()));
  const std::vector<int32_t> tokens{3, 3, 4 + 0xC3, 4 + 0xA9, 4 + 0xFF, 3};
  const auto streamed = [&](StreamingDecoder::Begins begins) {
    StreamingDecoder decoder(*tokenizer, begins);
    Parts parts;
    for (int32_t token : tokens) parts.push_back(decoder.push(token));
    return parts;
  };
  EXPECT_EQ(streamed(StreamingDecoder::Begins::with_text),
            (Parts{"a", " a", "", "\u00E9", "\uFFFD", " a"}));
  EXPECT_EQ(streamed(StreamingDecoder::Begins::after_prompt),
            (Parts{" a", " a", "", "\u00E9", "\uFFFD", " a"}));
}

TEST(StreamingDecoder, AnyBytesBecomeValidText) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 12, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 2 ? random() : 0x80 + random() % 0x80);
    for (const std::string& part : stream(bytes)) ASSERT_EQ(valid_utf8_length(part), part.size());
  }
}

}  // namespace
}  // namespace colossal::text
