#include "colossal/base/base64.h"

#include <gtest/gtest.h>

#include <utility>

namespace colossal {
namespace {

TEST(Base64, BothWays) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
      {"foo", "Zm9v"}, {"\xff\xef", "/+8="}, {std::string("foo\xFF\xEF\0", 6), "Zm9v/+8A"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
}

TEST(Base64, PaddingMayBeMissing) {
  EXPECT_EQ(decode_base64("Zg"), "f");
  EXPECT_EQ(decode_base64("Zm8"), "fo");
}

TEST(Base64, OtherTextsAreRefused) {
  for (const char* const wrong : {"Z", "Zm9v!", "Zm 9", "Zg==Zg==", "Z===", "====", "Zm9vZ"}) {
    EXPECT_EQ(decode_base64(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace colossal
