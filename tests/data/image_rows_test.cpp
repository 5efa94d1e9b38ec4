#include "colossal/data/images/image_rows.h"

#include <gmock/gmock.h>

#include "colossal/data/images/braces.h"
#include "tests/data/compressed_text.h"
#include "tests/data/image_files.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

// The message for a jsonl file whose second line is `line`.
std::string row_refusal(const std::string& line, const ImageSourceOptions& options = {}) {
  TextFolder folder;
  folder.write("1.png", "x");
  const std::string path = folder.write("rows.jsonl", R"({"image": "1.png", "label": "cat"})"
                                                      "\n" +
                                                          line + "\n");
  const std::string message = message_of<ConfigError>([&] { open_images(path, options); });
  EXPECT_THAT(message, AllOf(HasSubstr(path), HasSubstr("line 2")));
  return message;
}

constexpr auto kRows = R"({"image": "a/1.png", "label": "dog", "text": "one"}

{"image": {"path": "a/2.png"}, "labels": "cat", "caption": "two", "other": [1]}
{"file_name": "a/3.png"}
)";

void write_images(const TextFolder& folder) {
  for (const char* name : {"a/1.png", "a/2.png", "a/3.png"}) folder.write(name, name);
}

TEST(ImageRows, HavePathsLabelsAndTexts) {
  TextFolder folder;
  write_images(folder);
  const std::string rows = kRows;
  const std::string list = R"([{"image": "a/1.png", "label": "dog", "text": "one"},
      {"image": {"path": "a/2.png"}, "labels": "cat", "caption": "two"}, {"image": "a/3.png"}])";
  const std::pair<std::string, std::string> files[] = {
      {"rows.jsonl", rows},
      {"marked.jsonl", "\xef\xbb\xbf" + rows},
      {"unended.jsonl", rows.substr(0, rows.size() - 1)},
      {"rows.jsonl.gz", rows},
      {"rows.json", list},
      {"rows.csv", "image,label,text\na/1.png,dog,one\na/2.png,cat,two\na/3.png,,\n"}};
  for (const auto& [name, content] : files) {
    const auto source = open_images(folder.write(name, as_stored(name, content)));
    ASSERT_EQ(source->size(), 3) << name;
    EXPECT_THAT(source->classes(), ElementsAre("cat", "dog")) << name;
    const ImageSample first = source->read(0), second = source->read(1), third = source->read(2);
    EXPECT_EQ(first.content, "a/1.png");
    EXPECT_EQ(first.name, folder / "a/1.png");
    EXPECT_THAT(first.label, Optional(1));
    EXPECT_EQ(first.text, "one");
    EXPECT_EQ(second.content, "a/2.png");
    EXPECT_THAT(second.label, Optional(0));
    EXPECT_EQ(second.text, "two");
    EXPECT_EQ(third.content, "a/3.png");
    EXPECT_EQ(third.label, std::nullopt);
    EXPECT_EQ(third.text, "");
  }
}

TEST(ImageRows, OfSeveralFilesAreNumberedThroughTheFiles) {
  TextFolder folder;
  folder.write("1.png", "one");
  folder.write("deep/2.png", "two");
  folder.write("a.jsonl", R"({"image": "1.png", "label": 3})");
  folder.write("deep/b.jsonl", R"({"image": "2.png", "label": 0})");
  const auto source = open_images(folder / "**/*.jsonl");
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->read(0).content, "one");
  EXPECT_EQ(source->read(1).content, "two");
  EXPECT_THAT(source->classes(), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(source->label(0), Optional(3));
}

TEST(ImageRows, MayHaveTheBytesOfImages) {
  TextFolder folder;
  const std::string row = R"({"image": {"bytes": "aGVsbG8=", "path": "gone.png"}, "label": 1})";
  const std::string path = folder.write("rows.jsonl", row + "\n" + row);
  const ImageSample sample = open_images(path)->read(1);
  EXPECT_EQ(sample.content, "hello");
  EXPECT_THAT(sample.name, HasSubstr(path));
}

TEST(ImageRows, LargeOnesMustStayOnDisk) {
  TextFolder folder;
  const std::string row = R"({"image": {"bytes": ")" + std::string(100000, 'A') + R"("}})";
  EXPECT_EQ(open_images(folder.write("rows.jsonl", row))->read(0).content,
            std::string(75000, '\0'));
  EXPECT_THAT(message_of<ConfigError>([&] {
                open_images(folder.write("rows.jsonl.gz", as_stored("rows.jsonl.gz", row)));
              }),
              AllOf(HasSubstr("64 KiB"), HasSubstr("jsonl files that are not compressed")));
}

TEST(ImageRows, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(row_refusal("{"), HasSubstr("no JSON"));
  EXPECT_THAT(row_refusal("[1]"), HasSubstr("object"));
  EXPECT_THAT(row_refusal(R"({"label": "cat"})"), HasSubstr("no field \"image\""));
  EXPECT_THAT(row_refusal(R"({"image": 3})"), HasSubstr("the path of an image"));
  EXPECT_THAT(row_refusal(R"({"image": ""})"), HasSubstr("the path of an image"));
  EXPECT_THAT(row_refusal(R"({"image": {"bytes": "a?"}})"), HasSubstr("not base64"));
  EXPECT_THAT(row_refusal(R"({"image": {"url": "a"}})"), HasSubstr("{\"url\":\"a\"}"));
  EXPECT_THAT(row_refusal(R"({"image": "1.png", "file_name": "1.png"})"), HasSubstr("has both"));
  EXPECT_THAT(row_refusal(R"({"image": "1.png", "label": true})"), HasSubstr("name or number"));
  EXPECT_THAT(row_refusal(R"({"image": "1.png", "label": 1})"),
              HasSubstr("earlier labels are names"));
  EXPECT_THAT(row_refusal(R"({"image": "1.png", "text": 1})"), HasSubstr("a text is needed"));
  EXPECT_THAT(row_refusal(R"({"image": "2.png", "label": "cat"})"),
              AllOf(HasSubstr("2.png"), HasSubstr("No such file"), HasSubstr("relative")));
  EXPECT_THAT(row_refusal(R"({"image": "1.png", "label": "cow"})", {.classes = {"cat", "crow"}}),
              AllOf(HasSubstr("\"cow\" is unknown"), HasSubstr("\"crow\"")));
}

TEST(ImageFiles, HaveNoLabels) {
  TextFolder folder;
  folder.write("2.png", "two");
  folder.write("1.png", "one");
  const auto source = open_images(folder / "*.png");
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(source->read(0).content, "one");
  EXPECT_THAT(source->name(1), HasSubstr("2.png"));
  EXPECT_FALSE(source->label(0).has_value());
  EXPECT_TRUE(source->classes().empty());
}

TEST(ImageRows, WithoutRowsAreRefused) {
  TextFolder folder;
  EXPECT_THAT(message_of<ConfigError>([&] { open_images(folder.write("rows.jsonl", "\n")); }),
              HasSubstr("no rows"));
  EXPECT_THAT(message_of<ConfigError>([&] { open_images(folder.write("1.gif", "")); }),
              AllOf(HasSubstr("1.gif"), HasSubstr("no source of images")));
  EXPECT_THAT(message_of<ConfigError>([&] { open_images(folder / "none*"); }),
              HasSubstr("no file"));
}

TEST(ImageRows, FingerprintNoticesOtherRowsAndSizes) {
  const auto fingerprint = [](const std::string& rows, const std::string& image) {
    TextFolder folder;
    folder.write("1.png", image);
    return open_images(folder.write("rows.jsonl", rows))->fingerprint();
  };
  const std::string one = fingerprint(R"({"image": "1.png", "label": 1})", "abc");
  EXPECT_EQ(fingerprint(R"({"image": "1.png", "label": 1})", "xyz"), one);
  EXPECT_NE(fingerprint(R"({"image": "1.png", "label": 1})", "abcd"), one);
  EXPECT_NE(fingerprint(R"({"image": "1.png", "label": 2})", "abc"), one);
}

TEST(ImageRows, AChangeOfTheFileIsNoticed) {
  TextFolder folder;
  folder.write("1.png", "x");
  const std::string path = folder.write("rows.jsonl", R"({"image": "1.png"})");
  const auto source = open_images(path);
  folder.write("rows.jsonl", std::string(18, ' '));
  EXPECT_THAT(message_of<IoError>([&] { source->read(0); }),
              AllOf(HasSubstr(path), HasSubstr("changed")));
}

TEST(Braces, AreExpanded) {
  EXPECT_THAT(expand_braces("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(expand_braces("a-{8..11}.tar"),
              ElementsAre("a-10.tar", "a-11.tar", "a-8.tar", "a-9.tar"));
  EXPECT_THAT(expand_braces("a-{08..11}.tar"),
              ElementsAre("a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"));
  EXPECT_THAT(expand_braces("{a,b}/{x,}"), ElementsAre("a/", "a/x", "b/", "b/x"));
  EXPECT_THAT(expand_braces("a{b}c"), ElementsAre("a{b}c"));
  EXPECT_THAT(expand_braces("a{2..1}"), ElementsAre("a{2..1}"));
  EXPECT_THAT(expand_braces("}a{"), ElementsAre("}a{"));
  EXPECT_THAT(message_of<ConfigError>([] { expand_braces("{0..2000000}"); }),
              HasSubstr("more than a million"));
  EXPECT_THAT(message_of<ConfigError>([] { expand_braces("{0..1999}{0..1999}"); }),
              HasSubstr("more than a million"));
}

}  // namespace
}  // namespace colossal::data
