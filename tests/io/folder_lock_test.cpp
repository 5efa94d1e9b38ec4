#include "colossal/io/folder_lock.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

// Returns why the folder cannot be locked, or "".
std::string reason_for_refusal(const std::filesystem::path& folder,
                               std::chrono::milliseconds patience = 0ms) {
  try {
    const FolderLock lock(folder, patience);
    EXPECT_TRUE(lock.holds());
    return "";
  } catch (const FolderInUse& error) {
    return error.what();
  }
}

TEST(FolderLock, IsOneProcesssAndLeavesNothing) {
  const colossal::test::TemporaryDirectory folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_THAT(reason_for_refusal(folder.path()),
                HasSubstr(fmt::format("{} is in use by process {} on host ", folder.path().string(),
                                      ::getpid())));
  }
  EXPECT_EQ(reason_for_refusal(folder.path()), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FolderLock, WaitsForWhoIsAboutToEnd) {
  const colossal::test::TemporaryDirectory folder;
  std::optional<FolderLock> lock(std::in_place, folder.path());
  std::thread ends([&] {
    std::this_thread::sleep_for(200ms);
    lock.reset();
  });
  EXPECT_EQ(reason_for_refusal(folder.path(), 60s), "");
  ends.join();
}

TEST(FolderLock, DiesWithItsProcess) {
  const colossal::test::TemporaryDirectory folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(reason_for_refusal(folder.path()), HasSubstr(fmt::format("process {} ", child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(reason_for_refusal(folder.path()), "");
}

TEST(FolderLock, AFolderThatIsNotThereIsAnIoError) {
  EXPECT_THROW(FolderLock("/nowhere/at/all"), IoError);
}

}  // namespace
}  // namespace colossal::io
