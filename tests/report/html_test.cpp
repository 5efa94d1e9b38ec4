#include "colossal/report/html.h"

#include <gtest/gtest.h>

#include <string>

namespace colossal::report {
namespace {

using namespace std::string_literals;

TEST(EscapeHtml, WhatCouldEndAnElementOrAttribute) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</script>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/script&gt;");
  EXPECT_EQ(escape_html("&lt;"), "&amp;lt;");
}

TEST(EscapeHtml, TextOfAllPlanesStays) {
  EXPECT_EQ(escape_html("a\tb\nµ – 漢字 🚀"), "a\tb\nµ – 漢字 🚀");
}

TEST(EscapeHtml, ControlCharactersAreReplaced) {
  EXPECT_EQ(escape_html("a\0b\x1B[c\x7F"s), "a\uFFFDb\uFFFD[c\uFFFD");
}

TEST(ReplaceInvalidUtf8, EachBadByteIsReplaced) {
  EXPECT_EQ(replace_invalid_utf8("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(replace_invalid_utf8("\xC3"), "\uFFFD");                      // torn
  EXPECT_EQ(replace_invalid_utf8("\xE6\xBC"), "\uFFFD\uFFFD");            // torn
  EXPECT_EQ(replace_invalid_utf8("\x80"), "\uFFFD");                      // continues nothing
  EXPECT_EQ(replace_invalid_utf8("\xC0\xBC"), "\uFFFD\uFFFD");            // an overlong '<'
  EXPECT_EQ(replace_invalid_utf8("\xE0\x80\xBC"), "\uFFFD\uFFFD\uFFFD");  // the same
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // too large
  EXPECT_EQ(replace_invalid_utf8("\xC3<"), "\uFFFD<");
}

TEST(EscapeJsonForScript, NoTagCanEndTheScript) {
  EXPECT_EQ(escape_json_for_script(R"(["</script><!--"])"), R"(["\u003c/script>\u003c!--"])");
}

}  // namespace
}  // namespace colossal::report
