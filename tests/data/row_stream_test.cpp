#include "colossal/data/row_stream.h"

#include <gmock/gmock.h>

#include "tests/data/compressed_text.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns the rows of a file with this name and content, read at_once bytes at a time.
std::string rows_of(const std::string& name, const std::string& content,
                    const RowOptions& options = {}, size_t at_once = 1000) {
  TextFolder folder;
  const std::string path = folder.write(name, as_stored(name, content));
  const SourceFile file =
      find_source_files(std::vector{path}, "data.train", {.otherwise = FileFormat::jsonl}).front();
  const auto stream = open_rows(file, options);
  std::string rows, part(at_once, '\0');
  size_t length = at_once;
  while (length == at_once) {
    length = stream->read(part);
    rows.append(part, 0, length);
  }
  EXPECT_EQ(stream->bytes_read(), file.size);
  return rows;
}

TEST(JsonValues, BecomeLines) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"a": 1}, {"b": [2, {"c": "],["}]}])", "{\"a\": 1}\n{\"b\": [2, {\"c\": \"],[\"}]}\n"},
      {"[\n  {\n    \"a\": \"x \\\" \\\\\"\n  },\n  {}\n]\n",
       "{     \"a\": \"x \\\" \\\\\"   }\n{}\n"},
      {"{\n\"a\": 1}\n{\"b\":\n2}", "{ \"a\": 1}\n{\"b\": 2}\n"},
      {"{\"a\": 1}\n[broken\n{\"b\": 2}", "{\"a\": 1}\n[broken\n{\"b\": 2}"},
      {"\xef\xbb\xbf[{\"a\": \"\xc3\xa4\"}]", "{\"a\": \"\xc3\xa4\"}\n"},
      {"[1, \"two\", null]", "1\n\"two\"\nnull\n"},
      {"[]", ""},
      {"", ""}};
  for (const auto& [content, rows] : cases) {
    for (const size_t at_once : {size_t{1}, size_t{1000}}) {
      EXPECT_EQ(rows_of("a.json", content, {}, at_once), rows) << content;
    }
    EXPECT_EQ(rows_of("a.json.gz", content), rows);
  }
  std::string list = "[", lines;
  for (int i = 0; i < 200'000; ++i) {
    lines += fmt::format("{{\"number\": {}}}\n", i);
    list += fmt::format("{}{{\"number\": {}}}", i == 0 ? "" : ", ", i);
  }
  EXPECT_EQ(rows_of("a.json", list + "]", {}, 77'777), lines);
}

TEST(JsonValues, NameWhatIsDamaged) {
  const auto refusal = [](const char* content) {
    return message_of<IoError>([&] { rows_of("a.json", content); });
  };
  EXPECT_THAT(refusal("[{\"a\": 1}, {"), AllOf(HasSubstr("a.json"), HasSubstr("incomplete")));
  EXPECT_THAT(refusal("[{\"a\": \"x}]"), HasSubstr("incomplete"));
  EXPECT_THAT(refusal("[{}]]"), HasSubstr("']'"));
  EXPECT_THAT(refusal("[{}] {}"), HasSubstr("after the end of its list"));
}

TEST(CsvRows, BecomeLines) {
  const std::pair<const char*, const char*> cases[] = {
      {"a,b\nx,y\n", "{\"a\":\"x\",\"b\":\"y\"}\n"},
      {"a,b\r\n\"x, \"\"y\"\"\r\nz\",1\r\n", "{\"a\":\"x, \\\"y\\\"\\u000d\\nz\",\"b\":\"1\"}\n"},
      {"\xef\xbb\xbf"
       "a,b\n\n,\"\"\nx",
       "{\"a\":null,\"b\":\"\"}\n{\"a\":\"x\",\"b\":null}\n"},
      {"a\n\"\"\nb \"c\"\n", "{\"a\":\"\"}\n{\"a\":\"b \\\"c\\\"\"}\n"},
      {"a,b\n", ""},
      {"", ""}};
  for (const auto& [content, rows] : cases) {
    for (const size_t at_once : {size_t{1}, size_t{1000}}) {
      EXPECT_EQ(rows_of("a.csv", content, {}, at_once), rows) << content;
    }
    EXPECT_EQ(rows_of("a.csv.zst", content), rows);
  }
  EXPECT_EQ(rows_of("a.tsv", "a\tb\nx,y\tz\n"), "{\"a\":\"x,y\",\"b\":\"z\"}\n");
  EXPECT_EQ(rows_of("a.csv", "a,b\nx,y\n", {.column = "b"}), "{\"b\":\"y\"}\n");
  EXPECT_EQ(rows_of("a.csv", "a,b\nx,y\n", {.column = "c"}), "{\"a\":\"x\",\"b\":\"y\"}\n");
  const RowOptions typed{.typed_columns = {"t"}};
  EXPECT_EQ(rows_of("a.csv", "a,t\n1,1\n1,x\n1,True\n1,-0.5\n1,\"[{}]\"\n", typed),
            "{\"a\":\"1\",\"t\":1}\n{\"a\":\"1\",\"t\":\"x\"}\n{\"a\":\"1\",\"t\":true}\n"
            "{\"a\":\"1\",\"t\":-0.5}\n{\"a\":\"1\",\"t\":[{}]}\n");
}

TEST(CsvRows, NameWhatIsDamaged) {
  const auto refusal = [](const char* content) {
    return message_of<IoError>([&] { rows_of("a.csv", content); });
  };
  EXPECT_THAT(refusal("a,b\n1,2\n1,2,3\n"),
              AllOf(HasSubstr("a.csv"), HasSubstr("3 cells in row 2"), HasSubstr("2 columns")));
  EXPECT_THAT(refusal("a,a\n"), HasSubstr("two columns named \"a\""));
  EXPECT_THAT(refusal("a\n\"x"), HasSubstr("ends within quotes"));
}

TEST(ArrowRows, OfAFileCompressedAsAWholeAreRefused) {
  EXPECT_THAT(message_of<ConfigError>([&] { rows_of("a.parquet.gz", "x"); }),
              HasSubstr("decompress it first"));
}

}  // namespace
}  // namespace colossal::data
