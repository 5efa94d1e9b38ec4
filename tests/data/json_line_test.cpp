#include "colossal/data/json_line.h"

#include <gmock/gmock.h>

#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(JsonLine, GivesTheFieldsText) {
  EXPECT_EQ(read_text_field(R"({"id": 3, "text": "a\nb \u00e9 é"})", "text"), "a\nb é é");
  EXPECT_EQ(read_text_field(R"({"text": "", "content": "x"})", "content"), "x");
  EXPECT_EQ(read_text_field("\t{\"text\": \"\"} \r", "text"), "");
}

TEST(JsonLine, SaysWhatIsWrong) {
  const auto refusal = [](std::string_view line) {
    return message_of<InvalidLine>([&] { read_text_field(line, "text"); });
  };
  EXPECT_THAT(refusal(R"({"text": "a)"), HasSubstr("is no JSON"));
  EXPECT_THAT(refusal("{\"text\": \"\xFF\"}"), HasSubstr("is no JSON"));
  EXPECT_THAT(refusal(R"({"text": "\ud800"})"), HasSubstr("is no JSON"));
  EXPECT_THAT(refusal(R"(["a"])"), AllOf(HasSubstr("an array"), HasSubstr("an object is needed")));
  EXPECT_THAT(refusal(R"({"content": "a", "id": 1})"),
              AllOf(HasSubstr("no field \"text\""), HasSubstr(R"("content", "id")"),
                    HasSubstr("data.text_field")));
  EXPECT_THAT(refusal("{}"), HasSubstr("only none"));
  EXPECT_THAT(refusal(R"({"text": null})"), HasSubstr("of type null"));
}

TEST(JsonLine, IsBlank) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\r"));
  EXPECT_FALSE(is_blank(" {}"));
}

}  // namespace
}  // namespace colossal::data
