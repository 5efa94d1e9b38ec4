#include "colossal/io/json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/io/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(std::string_view text) {
  return message_of([&] { parse_json(text, "a.json"); });
}

TEST(JsonTest, ReadsWhatIsSound) {
  const auto json = parse_json(R"({"a": [1, {"a": "é\u00e9"}], "b": {"a": null}})", "a.json");
  EXPECT_EQ(json["a"][1]["a"], "éé");
}

TEST(JsonTest, NestsUpTo64Levels) {
  EXPECT_EQ(refusal(std::string(64, '[') + "1" + std::string(64, ']')), "nothing was thrown");
  EXPECT_THAT(refusal(std::string(65, '[') + std::string(65, ']')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(std::string(1 << 20, '[')), HasSubstr("nested deeper"));
}

TEST(JsonTest, RefusesWhatAPlainParserLetsPass) {
  EXPECT_THAT(refusal(R"({"a": 1, "b": 2, "a": 3})"),
              AllOf(StartsWith("a.json: "), HasSubstr("the key \"a\" twice")));
  EXPECT_THAT(refusal(R"([{"x": {"y": 1, "y": 1}}])"), HasSubstr("the key \"y\" twice"));
  EXPECT_THAT(refusal(std::string_view("{}\0{", 4)), HasSubstr("NUL"));
}

TEST(JsonTest, RefusesBrokenText) {
  for (const char* text : {"", "{", "{}x", "{\"a\"}", "[1,]", "\"\xff\"", "\"\\ud800\"", "nul"}) {
    EXPECT_THAT(refusal(text), HasSubstr("is not JSON")) << text;
  }
}

TEST(JsonTest, RefusesALargeFileUnread) {
  const colossal::test::TemporaryDirectory folder;
  test::write_text(folder / "a.json", "[1, 2, 3]");
  EXPECT_EQ(read_json(folder / "a.json").size(), 3U);
  EXPECT_THAT(message_of([&] { read_json(folder / "a.json", 8); }), HasSubstr("is 9 bytes long"));
}

TEST(JsonTest, ShowsTextOfUnknownOriginSafely) {
  EXPECT_EQ(quote_text("a\x1b[2J\n"), R"("a\u001b[2J\n")");
  EXPECT_EQ(quote_text(std::string(4096, 'x')).size(), 85U);
  EXPECT_EQ(show_value(nlohmann::json("\n")), R"("\n")");
  EXPECT_EQ(show_value(nlohmann::json::parse(R"([1, "é"])")), R"([1,"\u00e9"])");
  EXPECT_EQ(show_value(std::vector<int>(1000, 1)).size(), 83U);
  EXPECT_EQ(quote_text("\xff"), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace colossal::io
