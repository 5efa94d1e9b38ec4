#include "colossal/serve/stop_strings.h"

#include <gtest/gtest.h>

namespace colossal::serve {
namespace {

// The output is the same however the text is divided, and has no part of a stop string.
TEST(StopStrings, EndBeforeTheFirstOverAnyBorders) {
  const std::string text = "one\n\ntwo ENDE END three";
  for (const auto& [strings, expected] :
       {std::pair<std::vector<std::string>, std::string>{{"END "}, "one\n\ntwo ENDE "},
        {{"\n\n", "END"}, "one"},
        {{"", "nowhere"}, text},
        {{"three"}, "one\n\ntwo ENDE END "},
        {{}, text}}) {
    for (size_t size = 1; size <= text.size(); ++size) {
      StopStrings stop(strings);
      std::string given;
      for (size_t begin = 0; begin < text.size(); begin += size) {
        given += stop.push(text.substr(begin, size));
        EXPECT_TRUE(expected.starts_with(given));
      }
      EXPECT_EQ(stop.found(), expected != text);
      EXPECT_EQ(given + stop.flush(), expected);
    }
  }
}

TEST(StopStrings, HoldBackNoMoreThanWhatMayBecomeOne) {
  StopStrings stop({"aab"});
  EXPECT_EQ(stop.push("xa"), "x");
  EXPECT_EQ(stop.push("a"), "");
  EXPECT_EQ(stop.push("a"), "a");
  EXPECT_EQ(stop.push("c"), "aac");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, IncludeTheOneThatEndsTheText) {
  for (size_t size = 1; size <= 7; ++size) {
    StopStrings stop({"END", "nowhere"}, /*include=*/true);
    const std::string text = "two END";
    std::string given;
    for (size_t begin = 0; begin < text.size(); begin += size) {
      given += stop.push(text.substr(begin, size));
    }
    EXPECT_TRUE(stop.found());
    EXPECT_EQ(given + stop.flush(), text);
  }
}

}  // namespace
}  // namespace colossal::serve
