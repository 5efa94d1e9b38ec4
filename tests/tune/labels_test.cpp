#include "colossal/tune/samples/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/data/json_line.h"
#include "tests/support/temporary_directory.h"

namespace colossal::tune {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

Labels found_in(const std::string& lines, std::optional<Problem> problem = std::nullopt) {
  const test::TemporaryDirectory directory;
  return find_labels({directory.write("lines.jsonl", lines)}, "data.train", "label", problem,
                     data::InvalidFiles::error);
}

std::string refusal_of(const std::string& lines, std::optional<Problem> problem = std::nullopt) {
  try {
    found_in(lines, problem);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(FindLabels, ReadsNumbersOfTables) {
  const test::TemporaryDirectory directory;
  const auto found = [&](const std::string& table) {
    return find_labels({directory.write("a.csv", table)}, "data.train", "score", std::nullopt,
                       data::InvalidFiles::error);
  };
  EXPECT_EQ(found("text,score\n1,0.5\n2,1.5\n").problem, Problem::regression);
  EXPECT_EQ(found("text,score\n1,0\n2,1\n").names.size(), 2u);
  EXPECT_THAT(found("text,score\n1,no\n2,yes\n").names, ElementsAre("no", "yes"));
}

TEST(FindLabels, KnowsClassesTagsAndNumbersByTheirLook) {
  const Labels words = found_in(R"({"label": "no"}
{"label": "yes"}
{"label": "no"})");
  EXPECT_EQ(words.problem, Problem::single_label);
  EXPECT_THAT(words.names, ElementsAre("no", "yes"));
  const Labels truths = found_in("{\"label\": true}\n{\"label\": false}");
  EXPECT_THAT(truths.names, ElementsAre("false", "true"));
  const Labels numbers = found_in("{\"label\": 2}\n{\"label\": 0}");
  EXPECT_EQ(numbers.problem, Problem::single_label);
  EXPECT_THAT(numbers.names, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  const Labels tags = found_in(R"({"label": ["b", "a"]}
{"label": []})");
  EXPECT_EQ(tags.problem, Problem::multi_label);
  EXPECT_THAT(tags.names, ElementsAre("a", "b"));
  const Labels real = found_in("{\"label\": 0.5}\n{\"label\": 2}");
  EXPECT_EQ(real.problem, Problem::regression);
  EXPECT_THAT(real.names, ElementsAre("LABEL_0"));
  EXPECT_EQ(found_in("{\"label\": 3}", Problem::regression).problem, Problem::regression);
}

TEST(FindLabels, RefusesMixedLabelsByFileAndLine) {
  EXPECT_THAT(refusal_of("{\"label\": \"a\"}\n{\"label\": 3}"), HasSubstr("lines.jsonl:2"));
  EXPECT_THAT(refusal_of("{\"label\": 3}\n{\"label\": \"a\"}"), HasSubstr("a whole number"));
  EXPECT_THAT(refusal_of("{\"label\": [\"a\"]}\n{\"label\": \"a\"}"), HasSubstr("a list of texts"));
  EXPECT_THAT(refusal_of("{\"label\": 0.5}\n{\"label\": \"a\"}"), HasSubstr("a number"));
  EXPECT_THAT(refusal_of("{\"text\": \"a\"}"), HasSubstr("data.label_field"));
  EXPECT_THAT(refusal_of("{\"label\": -1}"), HasSubstr("a class from 0"));
  EXPECT_THAT(refusal_of("3"), HasSubstr("not a JSON object"));
}

TEST(TargetsOf, AreIndicesShareOrNumbers) {
  const Labels classes{Problem::single_label, {"no", "yes"}};
  EXPECT_THAT(targets_of("yes", classes), ElementsAre(1));
  EXPECT_THAT(targets_of(0, classes), ElementsAre(0));
  EXPECT_THROW(targets_of("maybe", classes), data::InvalidLine);
  EXPECT_THROW(targets_of(2, classes), data::InvalidLine);
  const Labels tags{Problem::multi_label, {"a", "b", "c"}};
  EXPECT_THAT(targets_of(json{"c", "a"}, tags), ElementsAre(1, 0, 1));
  EXPECT_THROW(targets_of("a", tags), data::InvalidLine);
  const Labels numbers{Problem::regression, {"LABEL_0", "LABEL_1"}};
  EXPECT_THAT(targets_of(json{0.5, 2}, numbers), ElementsAre(0.5, 2));
  EXPECT_THROW(targets_of(0.5, numbers), data::InvalidLine);
}

}  // namespace
}  // namespace colossal::tune
