#include "colossal/text/streaming_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "colossal/text/bytes_tokenizer.h"
#include "colossal/text/utf8.h"

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
