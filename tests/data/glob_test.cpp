#include "colossal/data/glob.h"

#include <gmock/gmock.h>

#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class Glob : public ::testing::Test {
 protected:
  Glob() {
    for (const char* name : {"a.txt", "b.txt", "c.md", ".hidden.txt", "one/d.txt", "one/two/e.txt",
                             "one/two/.secret/f.txt", "[x].txt"}) {
      folder_.write(name, "text");
    }
  }

  // Returns the found paths, relative to the folder and sorted.
  std::vector<std::string> expand(const std::string& pattern) const {
    std::vector<std::string> found = expand_glob(folder_ / pattern);
    for (std::string& path : found) path = path.substr((folder_ / "").size());
    std::ranges::sort(found);
    return found;
  }

  TextFolder folder_;
};

TEST_F(Glob, MatchesWithinAName) {
  EXPECT_THAT(expand("*.txt"), ElementsAre("[x].txt", "a.txt", "b.txt"));
  EXPECT_THAT(expand("?.txt"), ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(expand("[b-c].*"), ElementsAre("b.txt", "c.md"));
  EXPECT_THAT(expand("o*/*.txt"), ElementsAre("one/d.txt"));
  EXPECT_THAT(expand("a.txt"), ElementsAre("a.txt"));
}

TEST_F(Glob, TwoStarsMatchAnyNumberOfFolders) {
  EXPECT_THAT(expand("**/*.txt"),
              ElementsAre("[x].txt", "a.txt", "b.txt", "one/d.txt", "one/two/e.txt"));
  EXPECT_THAT(expand("one/**"), ElementsAre("one/d.txt", "one/two/e.txt"));
  EXPECT_THAT(expand("**/two/*"), ElementsAre("one/two/e.txt"));
  EXPECT_THAT(expand("**/**/e.txt"), ElementsAre("one/two/e.txt"));
}

TEST_F(Glob, NamesWithADotMustBeSpelled) {
  EXPECT_THAT(expand(".*.txt"), ElementsAre(".hidden.txt"));
  EXPECT_THAT(expand("**/.secret/*"), ElementsAre("one/two/.secret/f.txt"));
}

TEST_F(Glob, AFileNamedLikeAPatternIsFound) {
  EXPECT_THAT(expand("[x].txt"), ElementsAre("[x].txt"));
  EXPECT_THAT(expand("\\[x].*"), ElementsAre("[x].txt"));
}

TEST_F(Glob, FindsFilesOnly) {
  EXPECT_THAT(expand("one"), IsEmpty());
  EXPECT_THAT(expand("o*"), IsEmpty());
  EXPECT_THAT(expand("missing/*.txt"), IsEmpty());
  EXPECT_THAT(expand("a.txt/*"), IsEmpty());
  EXPECT_THAT(expand_glob(""), IsEmpty());
}

TEST_F(Glob, FollowsLinksToFilesButTwoStarsNoneToFolders) {
  std::filesystem::create_symlink("a.txt", folder_ / "one/link.txt");
  std::filesystem::create_symlink("..", folder_ / "one/loop");
  std::filesystem::create_symlink("nowhere", folder_ / "one/dead.txt");
  std::filesystem::create_symlink("../a.txt", folder_ / "one/good.txt");
  EXPECT_THAT(expand("one/**/*.txt"), ElementsAre("one/d.txt", "one/good.txt", "one/two/e.txt"));
  EXPECT_THAT(expand("one/loop/a.txt"), ElementsAre("one/loop/a.txt"));
}

TEST_F(Glob, TakesRelativePatterns) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "one");
  EXPECT_THAT(expand_glob("*.txt"), ElementsAre("d.txt"));
  EXPECT_THAT(expand_glob("**/e.txt"), ElementsAre("two/e.txt"));
  EXPECT_THAT(expand_glob("../?.txt"), UnorderedElementsAre("../a.txt", "../b.txt"));
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace colossal::data
