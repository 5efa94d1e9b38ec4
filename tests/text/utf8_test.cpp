#include "colossal/text/utf8.h"

#include <gtest/gtest.h>

namespace colossal::text {
namespace {

using Kind = Utf8Prefix::Kind;

TEST(Utf8, EveryCodePointGoesThereAndBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    append_utf8(text, c);
    size_t begin = 0, end = text.size();
    ASSERT_EQ(valid_utf8_length(text), text.size()) << std::hex << uint32_t{c};
    ASSERT_EQ(next_code_point(text, begin), c);
    ASSERT_EQ(previous_code_point(text, end), c);
    ASSERT_EQ(begin, text.size());
    ASSERT_EQ(end, 0u);
  }
}

TEST(Utf8, FindsTheFirstBadByte) {
  const std::string good = "sixteen letters and \xC3\xA9";
  for (const char* bad :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_EQ(valid_utf8_length(good + bad), good.size()) << bad;
    EXPECT_EQ(valid_utf8_length(good + bad + " and more"), good.size()) << bad;
  }
}

TEST(Utf8, TellsIncompleteFromInvalid) {
  const auto expect = [](std::string_view bytes, Kind kind, size_t length) {
    const Utf8Prefix prefix = read_utf8_prefix(bytes);
    EXPECT_EQ(prefix.kind, kind) << bytes;
    EXPECT_EQ(prefix.length, length) << bytes;
  };
  expect("\xF0\x9F\x98", Kind::incomplete, 3);
  expect("\xF0\x9F\x98\x80!", Kind::character, 4);
  expect("\xF0\x9F!", Kind::invalid, 2);
  expect("\xE0\x80\x80", Kind::invalid, 1);
  expect("\xED\xA0\x80", Kind::invalid, 1);
}

}  // namespace
}  // namespace colossal::text
