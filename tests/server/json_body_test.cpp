#include "colossal/server/json_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colossal::server {
namespace {

using testing::HasSubstr;

template <class Function>
std::string refusal(Function function) {
  try {
    function();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "none";
}

std::string body_refusal(const std::string& body) {
  return refusal([&] { parse_body(body); });
}

TEST(JsonBody, RefusesWhatIsNoObject) {
  EXPECT_EQ(body_refusal(R"({"a": [1, {"b": null}]})"), "none");
  EXPECT_THAT(body_refusal("[]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(body_refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(body_refusal("{\"a\": NaN}"), HasSubstr("not JSON"));
  EXPECT_THAT(body_refusal("{\"a\": \"\xFF\"}"), HasSubstr("not JSON"));
  EXPECT_THAT(body_refusal(R"({"a": "\ud800"})"), HasSubstr("not JSON"));
  EXPECT_THAT(body_refusal(std::string("{}\0{", 4)), HasSubstr("NUL"));
  EXPECT_THAT(body_refusal(R"({"a": 1, "a": 2})"), HasSubstr("twice"));
}

TEST(JsonBody, RefusesWhatWouldTakeLong) {
  const std::string deep = R"({"a":)" + std::string(100'000, '[');
  EXPECT_THAT(body_refusal(deep), HasSubstr("nested deeper than 64"));
  std::string wide = "{\"k\":0";
  for (int i = 0; i < 2000; ++i) wide += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_THAT(body_refusal(wide + "}"), HasSubstr("more keys"));
}

TEST(Fields, ReadWhatIsThereInItsType) {
  const Json json = parse_body(
      R"({"number": 1.5, "integer": 3, "flag": true, "text": "t", "list": ["a", "b"], "nothing": null})");
  Fields fields(json);
  EXPECT_EQ(fields.number("number", 0, 2), 1.5);
  EXPECT_EQ(fields.integer("integer", 0, 3), 3);
  EXPECT_TRUE(fields.boolean("flag", false));
  EXPECT_EQ(fields.string("text"), "t");
  EXPECT_EQ(fields.strings("text"), std::vector<std::string>{"t"});
  EXPECT_EQ(fields.strings("list"), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(fields.number("nothing", 0, 1).has_value());
  EXPECT_FALSE(fields.number("missing", 0, 1).has_value());
  EXPECT_TRUE(fields.unknown().empty());
  EXPECT_EQ(Fields(json).unknown().size(), 6u);
}

TEST(Fields, RefuseOtherTypesAndRangesByName) {
  const Json json = parse_body(
      R"({"text": "t", "real": 1.5, "large": 99999999999999999999, "list": [1, "a"], "one": 1})");
  Fields fields(json);
  EXPECT_EQ(refusal([&] { fields.number("text", 0, 1); }), "text = \"t\": must be a number");
  EXPECT_EQ(refusal([&] { fields.integer("real", 0, 9); }), "real = 1.5: must be an integer");
  EXPECT_THAT(refusal([&] { fields.integer("large", 0, 9); }), HasSubstr("must be an integer"));
  EXPECT_EQ(refusal([&] { fields.number("real", 0, 1); }), "real = 1.5: must be from 0 to 1");
  EXPECT_THAT(refusal([&] { fields.boolean("one", false); }), HasSubstr("true or false"));
  EXPECT_THAT(refusal([&] { fields.strings("list"); }), HasSubstr("list of strings"));
  EXPECT_THAT(refusal([&] { fields.tokens("list"); }), HasSubstr("number of a token"));
  EXPECT_THAT(refusal([&] { fields.refuse_unless("one", 2, "only 2 is supported"); }),
              HasSubstr("one = 1: only 2 is supported"));
}

}  // namespace
}  // namespace colossal::server
