#include "colossal/report/output_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <iterator>

#include "colossal/base/error.h"
#include "tests/report/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using testing::HasSubstr;

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

TEST(OutputFile, WhatWasWrittenIsThereBeforeClose) {
  const test::TemporaryDirectory scratch;
  OutputFile file(scratch / "log");
  file.write("one ");
  file.write("two");
  EXPECT_EQ(read_file(scratch / "log"), "one two");
}

TEST(OutputFile, GoesOnAfterWhatAFileHolds) {
  const test::TemporaryDirectory scratch;
  write_file(scratch / "log", "one two");
  OutputFile file(scratch / "log", OutputFile::Mode::append);
  EXPECT_EQ(file.size(), 7);
  file.truncate_to(4);
  file.write("three");
  EXPECT_EQ(file.size(), 9);
  EXPECT_EQ(read_file(scratch / "log"), "one three");
}

// A limit on the file size simulates a full disk.
TEST(OutputFile, AFullDiskTakesWholeWritesOnly) {
  const test::TemporaryDirectory scratch;
  OutputFile file(scratch / "log");
  rlimit unlimited{};
  ::getrlimit(RLIMIT_FSIZE, &unlimited);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{100, unlimited.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  file.write(std::string(60, 'a'));
  EXPECT_THAT(error_of([&] { file.write(std::string(60, 'b')); }), HasSubstr("File too large"));
  ::setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(read_file(scratch / "log"), std::string(60, 'a'));
  file.write("c");
  EXPECT_EQ(read_file(scratch / "log"), fmt::format("{}c", std::string(60, 'a')));
}

TEST(OutputFile, NamesThePathAndTheReason) {
  const test::TemporaryDirectory scratch;
  write_file(scratch / "taken", "");
  EXPECT_THAT(error_of([] { OutputFile("/nowhere/log"); }),
              HasSubstr("/nowhere/log: No such file"));
  EXPECT_THAT(error_of([&] { OutputFile(scratch / "taken", OutputFile::Mode::exclusive); }),
              HasSubstr("File exists"));
  EXPECT_THAT(error_of([] { OutputFile("/dev/full").write("x"); }),
              HasSubstr("/dev/full: No space left"));
}

}  // namespace
}  // namespace colossal::report
