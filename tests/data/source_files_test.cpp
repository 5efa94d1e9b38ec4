#include "colossal/data/source_files.h"

#include <gmock/gmock.h>

#include "tests/data/compressed_text.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> paths(std::span<const SourceFile> files) {
  std::vector<std::string> paths;
  for (const SourceFile& file : files) paths.push_back(file.path);
  return paths;
}

std::string refusal(const std::vector<std::string>& patterns) {
  return message_of<ConfigError>([&] { find_source_files(patterns, "data.train"); });
}

TEST(SourceFiles, AreSortedByTheBytesOfTheirPathsEachOnce) {
  TextFolder folder;
  for (const char* name : {"b.txt", "a/z.txt", "a-b.txt", "B.txt", "\xc3\xa4.txt"}) {
    folder.write(name, "text");
  }
  const auto files = find_source_files(
      std::vector{folder / "*.txt", folder / "**/*", folder / "./a/../b.txt"}, "data.train");
  // By bytes, '-' comes before '/', unlike in a walk through the folders.
  EXPECT_EQ(paths(files), (std::vector{folder / "B.txt", folder / "a-b.txt", folder / "a/z.txt",
                                       folder / "b.txt", folder / "\xc3\xa4.txt"}));
}

TEST(SourceFiles, CarrySizeAndTime) {
  TextFolder folder;
  const std::string path = folder.write("a.txt", "12345");
  const std::vector patterns{path};
  const SourceFile before = find_source_files(patterns, "data.train").front();
  EXPECT_EQ(before.size, 5);
  using namespace std::chrono_literals;
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + 1ms);
  EXPECT_EQ(find_source_files(patterns, "data.train").front().modified_time_ns,
            before.modified_time_ns + 1'000'000);
}

TEST(SourceFiles, NothingFoundNamesThePatternAndTheNearestFolder) {
  TextFolder folder;
  folder.write("one/a.txt", "text");
  EXPECT_THAT(refusal({folder / "one/*.txt", folder / "one/two/three/*.txt"}),
              AllOf(HasSubstr("data.train"), HasSubstr(folder / "one/two/three/*.txt"),
                    HasSubstr("folder that exists is '" + (folder / "one") + "'")));
}

TEST(SourceFiles, AFolderIsRefusedWithWhatWouldMatch) {
  TextFolder folder;
  folder.write("one/a.txt", "text");
  EXPECT_THAT(refusal({folder / "one"}),
              AllOf(HasSubstr("is a folder"), HasSubstr("'" + (folder / "one/*") + "'"),
                    HasSubstr("'" + (folder / "one/**") + "'")));
}

FileFormat format_of(const std::string& path, FileFormat otherwise = FileFormat::text) {
  return find_source_files(std::vector{path}, "data.train", {.otherwise = otherwise})
      .front()
      .format;
}

TEST(SourceFiles, NamesGiveTheFormat) {
  TextFolder folder;
  const std::pair<const char*, FileFormat> formats[] = {
      {"a.txt", FileFormat::text},         {"jsonl", FileFormat::text},
      {"a.jsonl.txt", FileFormat::text},   {"a.gz", FileFormat::text},
      {"a.txt.GZ", FileFormat::text},      {"a.jsonl", FileFormat::jsonl},
      {"a.JSONL", FileFormat::jsonl},      {"a.jsonl.gz", FileFormat::jsonl},
      {"a.ndjson.ZST", FileFormat::jsonl}, {"a.csv", FileFormat::csv},
      {"a.tsv.gz", FileFormat::tsv},       {"a.parquet", FileFormat::parquet},
      {"a.arrow", FileFormat::arrow}};
  for (const auto& [name, format] : formats) {
    const std::string path = folder.write(name, as_stored(name, "x"));
    EXPECT_EQ(format_of(path), format) << name;
    if (format == FileFormat::text) {
      EXPECT_EQ(format_of(path, FileFormat::jsonl), FileFormat::jsonl) << name;
    }
  }
  const auto files = find_source_files(std::vector{folder / "*.GZ"}, "data.train");
  EXPECT_EQ(files.front().compression, Compression::gzip);
}

TEST(SourceFiles, AJsonFileHasRowsOrIsADocument) {
  TextFolder folder;
  const std::pair<std::string, FileFormat> contents[] = {
      {"[{\"a\": 1}]", FileFormat::json},
      {"\xef\xbb\xbf [\n {\"a\": 1}]", FileFormat::json},
      {"{\"a\": 1}\n{\"a\": 2}\n", FileFormat::json},
      {"{\"text\": \"x\"}", FileFormat::json},
      {"{\"name\": \"package\"}\n", FileFormat::text},
      {"{\n \"name\": \"package\"\n}\n", FileFormat::text},
      {"[1, 2]", FileFormat::text},
      {"", FileFormat::text}};
  for (const auto& [content, format] : contents) {
    for (const std::string name : {"a.json", "a.json.gz", "a.JSON"}) {
      const std::string path = folder.write(name, as_stored(name, content));
      EXPECT_EQ(format_of(path), format) << name << ": " << content;
      EXPECT_EQ(format_of(path, FileFormat::jsonl), FileFormat::json);
    }
  }
}

TEST(SourceFiles, FirstBytesTellWhatIsNoText) {
  TextFolder folder;
  using namespace std::string_literals;
  EXPECT_EQ(format_of(folder.write("table", "PAR1....")), FileFormat::parquet);
  folder.write("packed.txt", gzipped("x"));
  EXPECT_EQ(find_source_files(std::vector{folder / "packed.txt"}, "data.train").front().compression,
            Compression::gzip);
  const std::pair<std::string, const char*> others[] = {{"PK\3\4....", "zip"},
                                                        {"\xfd"
                                                         "7zXZ\0...."s,
                                                         "xz"},
                                                        {"BZh91AY&SY....", "bzip2"},
                                                        {"\xff\xfeh\0i\0"s, "UTF-16"},
                                                        {"%PDF-1.7", "PDF"}};
  for (const auto& [content, what] : others) {
    const std::string path = folder.write("a.txt", content);
    EXPECT_THAT(refusal({path}), AllOf(HasSubstr(path), HasSubstr(what), HasSubstr("data.invalid"),
                                       HasSubstr("data.format = \"text\"")));
    int64_t skipped = 0;
    EXPECT_TRUE(
        find_source_files(std::vector{path}, "data.train", {.skip_unreadable = true}, &skipped)
            .empty());
    EXPECT_EQ(skipped, 1);
    EXPECT_EQ(
        find_source_files(std::vector{path}, "data.train", {.format = FileFormat::text}).size(),
        1u);
  }
}

TEST(SourceFiles, NoPatternsAreRefused) {
  EXPECT_THAT(refusal({}), HasSubstr("data.train is empty"));
}

}  // namespace
}  // namespace colossal::data
