#include "colossal/data/source_files.h"

#include <gmock/gmock.h>

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

TEST(SourceFiles, NoPatternsAreRefused) {
  EXPECT_THAT(refusal({}), HasSubstr("data.train is empty"));
}

}  // namespace
}  // namespace colossal::data
