#include "colossal/io/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <thread>

#include "colossal/io/hidden_sibling.h"
#include "colossal/io/mapped_file.h"
#include "tests/io/files.h"
#include "tests/support/seccomp_filter.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using test::bytes_of;
using test::message_of;
using test::write_text;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  colossal::test::TemporaryDirectory folder_;
};

TEST_F(FileTest, WritesAtAnyOffsetAndReadsTheSame) {
  File file = File::create(folder_ / "a");
  file.reserve(12);
  file.write_at(bytes_of("world"), 6);
  file.write_at(bytes_of("hello "), 0);
  file.sync();
  EXPECT_EQ(file.size(), 12);
  EXPECT_EQ(read_file(folder_ / "a"), std::string("hello world\0", 12));
  std::array<std::byte, 3> part;
  File::open_for_reading(folder_ / "a").read_at(part, 4);
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(part.data()), 3), "o w");
}

TEST_F(FileTest, CreatesOnlyWhatIsNotThere) {
  write_text(folder_ / "a", "old");
  EXPECT_THAT(message_of([&] { File::create(folder_ / "a"); }),
              AllOf(HasSubstr((folder_ / "a").string()), HasSubstr("cannot create"),
                    HasSubstr("File exists")));
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  File::open_or_create(folder_ / "a");
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(File::open_or_create(folder_ / "b").size(), 0);
}

TEST_F(FileTest, FailuresNamePathOperationAndReason) {
  EXPECT_THAT(message_of([&] { File::open_for_reading(folder_ / "missing"); }),
              AllOf(HasSubstr("missing: cannot open"), HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { File::open_for_reading(folder_.path()); }),
              HasSubstr("is not a regular file"));
  EXPECT_THAT(message_of([&] { sync_directory(folder_ / "missing"); }), HasSubstr("No such file"));
  write_text(folder_ / "short", "12345");
  std::array<std::byte, 4> part;
  EXPECT_THAT(message_of([&] { File::open_for_reading(folder_ / "short").read_at(part, 3); }),
              HasSubstr("ends at offset 5, 2 bytes before"));
  EXPECT_THAT(message_of([&] { read_file(folder_ / "short", 4); }), HasSubstr("is 5 bytes long"));
}

TEST_F(FileTest, AFullDiskSaysHowManyBytesWereWanted) {
  EXPECT_THAT(message_of([] { raise_io_error("x", "write 4096 bytes at offset 8", ENOSPC); }),
              HasSubstr("x: cannot write 4096 bytes at offset 8: No space left on device"));
}

TEST_F(FileTest, OpeningANamedPipeDoesNotWait) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { File::open_for_reading(folder_ / "pipe"); }),
              HasSubstr("is not a regular file"));
}

TEST_F(FileTest, ALinkMayNotLeaveItsFolder) {
  write_text(folder_ / "outside", "secret");
  write_text(folder_ / "in/inside", "fine");
  std::filesystem::create_symlink("inside", folder_ / "in/near");
  std::filesystem::create_symlink("../outside", folder_ / "in/far");
  std::filesystem::create_symlink(folder_ / "outside", folder_ / "in/absolute");
  std::filesystem::create_symlink("loop", folder_ / "in/loop");
  const auto open = [&](const char* name, OutsideLinks links) {
    return File::open_inside(folder_ / "in", name, links).size();
  };
  EXPECT_EQ(open("inside", OutsideLinks::refuse), 4);
  EXPECT_EQ(open("near", OutsideLinks::refuse), 4);
  for (const char* name : {"far", "absolute", "../outside"}) {
    EXPECT_THAT(message_of([&] { open(name, OutsideLinks::refuse); }),
                HasSubstr("leaves its folder"));
  }
  EXPECT_THAT(message_of([&] { open("loop", OutsideLinks::refuse); }),
              HasSubstr("cannot be checked"));
  EXPECT_EQ(open("far", OutsideLinks::follow), 6);
}

TEST_F(FileTest, NoLinkIsFollowedWhereTheKernelCannotCheckThem) {
  write_text(folder_ / "outside/file", "secret");
  write_text(folder_ / "in/deep/file", "fine");
  std::filesystem::create_symlink("file", folder_ / "in/deep/near");
  std::filesystem::create_directory_symlink("../outside", folder_ / "in/away");
  std::jthread([&] {
    if (!colossal::test::filter_system_call(SYS_openat2, SECCOMP_RET_ERRNO | ENOSYS)) {
      GTEST_SKIP() << "no seccomp filters here";
    }
    const auto open = [&](const char* name) {
      return File::open_inside(folder_ / "in", name, OutsideLinks::refuse).size();
    };
    EXPECT_EQ(open("deep/file"), 4);
    for (const char* name : {"deep/near", "away/file"}) {
      EXPECT_THAT(message_of([&] { open(name); }), HasSubstr("cannot be checked"));
    }
    EXPECT_THAT(message_of([&] { open("../outside/file"); }), HasSubstr("leaves its folder"));
    EXPECT_THAT(message_of([&] { open((folder_ / "outside/file").c_str()); }),
                HasSubstr("leaves its folder"));
    EXPECT_THAT(message_of([&] { open("deep/none"); }), HasSubstr("cannot open"));
    EXPECT_THAT(message_of([&] { open("none/file"); }), HasSubstr("cannot open"));
  }).join();
}

// As `mkdir -p` does it.
TEST_F(FileTest, MakesFoldersOnTheWayToAFolder) {
  make_folders(folder_ / "new/../deep/er");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "deep/er"));
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "new"));
  make_folders(folder_ / "new/../deep/er/");
}

TEST_F(FileTest, AtomicWritesReplaceAndLeaveNothingBehind) {
  const auto path = folder_ / "config.json";
  write_file_atomically(path, "one");
  write_file_atomically(path, "two, longer");
  EXPECT_EQ(read_file(path), "two, longer");
  EXPECT_THAT(message_of([&] { write_file_atomically(folder_ / "no/such", "x"); }),
              HasSubstr("cannot create"));
  std::filesystem::create_directories(folder_ / "taken/by");
  EXPECT_THAT(message_of([&] { write_file_atomically(folder_ / "taken", "x"); }),
              HasSubstr("cannot rename"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 2);
}

TEST_F(FileTest, MapsTheBytesOfTheFile) {
  write_text(folder_ / "a", "mapped");
  write_text(folder_ / "empty", "");
  MappedFile file(folder_ / "a", 6);
  const MappedFile moved = std::move(file);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(moved.bytes().data()), 6), "mapped");
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
  EXPECT_THAT(message_of([&] { MappedFile(folder_ / "a", 7); }),
              HasSubstr("is 6 bytes long, 7 were expected"));
}

TEST(HiddenSiblingTest, NamesAreNewAndAreRecognised) {
  const auto one = hidden_sibling("run/step-000001", HiddenKind::temporary);
  EXPECT_TRUE(one.is_absolute());
  EXPECT_NE(one, hidden_sibling("run/step-000001", HiddenKind::temporary));
  const auto parsed = parse_hidden_name(one.filename().string());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->name, "step-000001");
  EXPECT_EQ(parsed->kind, HiddenKind::temporary);
  EXPECT_EQ(parse_hidden_name(".x.old-0123456789abcdef")->kind, HiddenKind::replaced);
  for (const char* name : {"", ".", "step-000001", ".x.tmp-", ".x.tmp-0123456789abcdeG",
                           "x.tmp-0123456789abcdef", "..tmp-0123456789abcdef", ".x.tmp-0123"}) {
    EXPECT_FALSE(parse_hidden_name(name)) << name;
  }
}

}  // namespace
}  // namespace colossal::io
