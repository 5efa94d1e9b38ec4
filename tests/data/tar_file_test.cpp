#include "colossal/data/images/tar_file.h"

#include <gmock/gmock.h>

#include "tests/data/tar_archive.h"
#include "tests/data/text_folder.h"
#include "tests/support/mutations.h"
#include "tests/support/run_process.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Names and contents of the members.
TarMembers members_of(const std::string& path) {
  const io::File archive = io::File::open_for_reading(path);
  TarMembers members;
  list_tar(archive, [&](const TarMember& member) {
    std::string content(static_cast<size_t>(member.size), '\0');
    archive.read_at(std::as_writable_bytes(std::span(content)), member.offset);
    members.emplace_back(member.name, content);
  });
  return members;
}

std::string tar_refusal(const TextFolder& folder, const std::string& content) {
  const std::string path = folder.write("damaged.tar", content);
  return message_of<IoError>([&] { members_of(path); });
}

TEST(TarFile, ListsRegularFiles) {
  TextFolder folder;
  const std::string archive = tar_member("a", "", '5') + tar_member("a/1.txt", "one") +
                              tar_member("2", std::string(512, 'x')) +
                              tar_member("3", "three", '0', "long/prefix") +
                              tar_member("4", "", '\0');
  // With and without the two zero blocks at the end.
  for (const std::string& end : {std::string(1024, '\0'), std::string()}) {
    EXPECT_THAT(members_of(folder.write("a.tar", archive + end)),
                ElementsAre(Pair("a/1.txt", "one"), Pair("2", std::string(512, 'x')),
                            Pair("long/prefix/3", "three"), Pair("4", "")));
  }
}

TEST(TarFile, ReadsWhatGnuTarWrites) {
  TextFolder folder;
  const std::string longest(180, 'n');
  folder.write("in/" + longest, "long name");
  folder.write("in/short", "short name");
  for (const std::string format : {"gnu", "pax", "ustar"}) {
    std::vector<std::string> command = {"tar", "--format=" + format, "-C",   folder / "in",
                                        "-cf", folder / "out.tar",   "short"};
    if (format != "ustar") command.push_back(longest);  // which has no place for it
    const auto run = test::run_process(command);
    ASSERT_EQ(run.exit_code, 0) << run.output;
    TarMembers expected = {{"short", "short name"}};
    if (format != "ustar") expected.emplace_back(longest, "long name");
    EXPECT_EQ(members_of(folder / "out.tar"), expected) << format;
  }
}

TEST(TarFile, ExtendedHeadersCountForOneFile) {
  TextFolder folder;
  // The header itself has the size 0: it has no place for the size of a large file.
  const std::string content = "abc" + std::string(509, '\0');
  const std::string long_name = tar_member("L", "folder/long.name", 'L');
  const std::string extensions[] = {tar_member("x", "25 path=folder/long.name\n10 size=3\n", 'x'),
                                    tar_member("x", "10 size=3\n", 'x') + long_name,
                                    long_name + tar_member("x", "10 size=3\n", 'x')};
  for (const std::string& extension : extensions) {
    const std::string archive =
        extension + tar_member("short", "") + content + tar_member("next", "four");
    EXPECT_THAT(members_of(folder.write("a.tar", archive)),
                ElementsAre(Pair("folder/long.name", "abc"), Pair("next", "four")));
  }
}

TEST(TarFile, DamageIsToldWithItsPlace) {
  TextFolder folder;
  const std::string archive = tar_member("1", "one") + tar_member("2", std::string(600, 'x'));
  EXPECT_THAT(tar_refusal(folder, archive.substr(0, 1700)),
              AllOf(HasSubstr("damaged.tar"), HasSubstr("end of the archive")));
  EXPECT_THAT(tar_refusal(folder, archive.substr(0, 1300)), HasSubstr("within a header"));
  std::string changed = archive;
  changed[3] ^= 1;
  EXPECT_THAT(tar_refusal(folder, changed), AllOf(HasSubstr("checksum"), HasSubstr("byte 0")));
  EXPECT_THAT(tar_refusal(folder, "\x1f\x8b" + std::string(600, 'x')), HasSubstr("decompress"));
  EXPECT_THAT(tar_refusal(folder, tar_member("link", "", '2')),
              AllOf(HasSubstr("link"), HasSubstr("no regular file")));
}

// Such archives are listed or refused, but nothing else happens.
TEST(TarFile, SurvivesDamage) {
  const test::TemporaryDirectory folder(test::Storage::memory);
  const std::string path = (folder / "a.tar").string();
  int listed = 0, refused = 0;
  test::for_mutations({tar_member("1.jpg", "one") + tar_member("name", "16 path=abcdefg\n", 'x') +
                           tar_member("2.jpg", "two"),
                       tar_archive({{"1.txt", "text"}, {"2.cls", "7"}})},
                      std::string("\0 7", 3), [&](const std::string& content, test::Mutator&) {
                        folder.write("a.tar", content);
                        try {
                          members_of(path);
                          ++listed;
                        } catch (const IoError&) {
                          ++refused;
                        }
                      });
  EXPECT_GT(listed, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace colossal::data
