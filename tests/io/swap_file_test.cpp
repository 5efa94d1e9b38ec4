#include "colossal/io/swap_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "colossal/io/transfer_memory.h"
#include "tests/io/files.h"
#include "tests/support/seccomp_filter.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr int64_t kMiB = int64_t{1} << 20;

// Memory that can be filled so that no two blocks and no two seeds give the same bytes.
class Memory {
 public:
  explicit Memory(int64_t bytes, uint64_t seed = 0) : memory_(bytes) { fill(seed); }
  void fill(uint64_t seed) const {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < span().size(); i += sizeof(uint64_t)) {
      const uint64_t value = random();
      std::memcpy(span().data() + i, &value, sizeof value);
    }
  }
  std::span<std::byte> span() const { return memory_.bytes(); }
  std::span<std::byte> part(int64_t begin, int64_t bytes) const {
    return span().subspan(static_cast<size_t>(begin), static_cast<size_t>(bytes));
  }

 private:
  TransferMemory memory_;
};

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

size_t count_entries(const std::filesystem::path& directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

void write_and_wait(SwapFile& file, int64_t offset, std::span<const std::byte> from) {
  file.wait(file.write(offset, from));
}

void read_and_wait(SwapFile& file, int64_t offset, std::span<std::byte> into) {
  file.wait(file.read(offset, into));
}

class SwapFileTest : public ::testing::TestWithParam<SwapMethod> {
 protected:
  SwapFile make(int64_t bytes) { return SwapFile(folder_.path(), bytes, GetParam()); }

  colossal::test::TemporaryDirectory folder_;
};

INSTANTIATE_TEST_SUITE_P(Queues, SwapFileTest,
                         ::testing::Values(SwapMethod::automatic, SwapMethod::threads),
                         [](const auto& info) {
                           return info.param == SwapMethod::threads ? "threads" : "automatic";
                         });

TEST_P(SwapFileTest, SaysHowItMovesBytes) {
  const auto expected = GetParam() == SwapMethod::threads
                            ? "threads, (direct|buffered)"
                            : "(io_uring|threads), (direct|buffered).*";
  EXPECT_THAT(make(kMiB).method(), MatchesRegex(expected));
}

// Writes and reads regions of many sizes, all under way at once, in random order, three times.
TEST_P(SwapFileTest, RegionsComeBackAsTheyWereLastWritten) {
  constexpr int64_t kRegions = 60;
  std::mt19937_64 random(7);
  std::vector<int64_t> offsets, sizes;
  int64_t end = 0;
  for (int64_t i = 0; i < kRegions; ++i) {
    offsets.push_back(end);
    sizes.push_back(kSwapBlock *
                    (i % 7 == 0 ? 1 + static_cast<int64_t>(random() % 700) : 1 + i % 5));
    end += sizes.back();
  }
  SwapFile file = make(end);
  const Memory source(end), destination(end, 99);
  std::vector<size_t> order(kRegions);
  std::iota(order.begin(), order.end(), size_t{0});
  for (uint64_t round = 1; round <= 3; ++round) {
    source.fill(round);
    std::vector<SwapFile::Transfer> transfers;
    std::ranges::shuffle(order, random);
    for (const size_t i : order) {
      transfers.push_back(file.write(offsets[i], source.part(offsets[i], sizes[i])));
    }
    // Reads start while writes are under way. Each must see its own region's write.
    std::ranges::shuffle(order, random);
    for (const size_t i : order) {
      transfers.push_back(file.read(offsets[i], destination.part(offsets[i], sizes[i])));
    }
    std::ranges::shuffle(transfers, random);
    for (const auto& transfer : transfers) file.wait(transfer);
    for (const auto& transfer : transfers) EXPECT_TRUE(file.done(transfer));
    EXPECT_TRUE(equal(source.span(), destination.span())) << "round " << round;
  }
}

TEST_P(SwapFileTest, TransfersOfTheSameBytesTakePlaceInTheOrderOfTheCalls) {
  constexpr int64_t kBytes = 5 * kMiB + kSwapBlock;
  SwapFile file = make(kBytes);
  const Memory first(kBytes, 1), second(kBytes, 2), before(kBytes, 3), after(kBytes, 4);
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto a = file.write(0, first.span());
    const auto b = file.read(0, before.span());
    const auto c = file.write(0, second.span());
    const auto d = file.read(0, after.span());
    for (const auto& transfer : {a, b, c, d}) file.wait(transfer);
    ASSERT_TRUE(equal(before.span(), first.span()));
    ASSERT_TRUE(equal(after.span(), second.span()));
  }
}

TEST_P(SwapFileTest, AWriteIsReadBackInPieces) {
  constexpr int64_t kBytes = 4 * kMiB + 3 * kSwapBlock;
  SwapFile file = make(kBytes + kSwapBlock);
  const Memory source(kBytes, 1), destination(kBytes, 2);
  write_and_wait(file, kSwapBlock, source.span());
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
           {kMiB, 2 * kMiB}, {0, kMiB}, {2 * kMiB, 4 * kMiB}, {4 * kMiB, kBytes}}) {
    read_and_wait(file, kSwapBlock + begin, destination.part(begin, end - begin));
    EXPECT_TRUE(equal(source.part(begin, end - begin), destination.part(begin, end - begin)));
  }
}

TEST_P(SwapFileTest, ReadingWhatWasNotWrittenIsRefused) {
  SwapFile file = make(8 * kMiB);
  const Memory memory(3 * kMiB);
  EXPECT_THAT(message_of([&] { file.read(kMiB, memory.span()); }),
              HasSubstr("no whole piece was written at offset 1048576"));
  write_and_wait(file, kMiB, memory.span());
  // Beyond the end of what was written, within a piece, and half a piece.
  EXPECT_THAT(message_of([&] { file.read(2 * kMiB, memory.span()); }),
              HasSubstr("no whole piece was written at offset 4194304"));
  EXPECT_THAT(message_of([&] { file.read(kMiB + kSwapBlock, memory.part(0, kMiB)); }),
              HasSubstr("no whole piece was written at offset 1052672"));
  EXPECT_THAT(message_of([&] { file.read(kMiB, memory.part(0, kMiB / 2)); }),
              HasSubstr("no whole piece was written at offset 1048576"));
  // A piece that was partly overwritten cannot be read as a whole any more; its neighbors can.
  write_and_wait(file, 2 * kMiB + kMiB / 2, memory.part(0, kSwapBlock));
  EXPECT_THAT(message_of([&] { file.read(2 * kMiB, memory.part(0, kMiB)); }),
              HasSubstr("no whole piece was written at offset 2097152"));
  read_and_wait(file, kMiB, memory.part(0, kMiB));
  read_and_wait(file, 3 * kMiB, memory.part(0, kMiB));
  read_and_wait(file, 2 * kMiB + kMiB / 2, memory.part(0, kSwapBlock));
}

TEST_P(SwapFileTest, DamagedBytesAreFoundAndOthersStillRead) {
  SwapFile file = make(4 * kMiB);
  const Memory source(4 * kMiB, 1), destination(4 * kMiB, 2);
  write_and_wait(file, 0, source.span());
  const Memory wrong(kSwapBlock, 5);
  ASSERT_EQ(::pwrite(file.descriptor(), wrong.span().data(), kSwapBlock, 2 * kMiB + kSwapBlock),
            kSwapBlock);
  const auto transfer = file.read(0, destination.span());
  const auto expected = AllOf(HasSubstr(folder_.path().string()),
                              HasSubstr("the 1048576 bytes read at offset 2097152 are not those"));
  EXPECT_THAT(message_of([&] { file.wait(transfer); }), expected);
  EXPECT_THAT(message_of([&] { file.wait(transfer); }), expected);
  EXPECT_THROW(file.wait(transfer), IoError);
  read_and_wait(file, 0, destination.part(0, 2 * kMiB));
  EXPECT_TRUE(equal(source.part(0, 2 * kMiB), destination.part(0, 2 * kMiB)));
}

TEST_P(SwapFileTest, MemoryOfAReadIsTheCallersOnceItWasVerified) {
  SwapFile file = make(kMiB);
  const Memory memory(kMiB, 1);
  write_and_wait(file, 0, memory.span());
  const auto transfer = file.read(0, memory.span());
  file.wait(transfer);
  memory.span()[0] ^= std::byte{1};
  file.wait(transfer);
}

TEST_P(SwapFileTest, AFailedTransferFailsAloneAndNamesThePlace) {
  SwapFile file = make(8 * kMiB);
  const Memory source(8 * kMiB, 1), destination(9 * kMiB, 2);
  write_and_wait(file, 0, source.span());
  for (const int64_t length : {5 * kMiB, 5 * kMiB - 1000}) {  // within and between blocks
    ASSERT_EQ(::ftruncate(file.descriptor(), length), 0);
    const auto bad = file.read(4 * kMiB, destination.part(4 * kMiB, 4 * kMiB));
    const auto good = file.read(0, destination.part(0, 4 * kMiB));
    const auto good_too = file.read(2 * kMiB, destination.part(8 * kMiB, kMiB));
    EXPECT_THAT(
        message_of([&] { file.wait(bad); }),
        AllOf(HasSubstr(folder_.path().string()),
              ::testing::ContainsRegex("ends at offset [567]|cannot read [0-9]+ bytes at")));
    EXPECT_THROW(file.wait(bad), IoError);
    file.wait(good);
    file.wait(good_too);
    EXPECT_TRUE(equal(source.part(0, 4 * kMiB), destination.part(0, 4 * kMiB)));
  }
}

TEST_P(SwapFileTest, AFailedWriteIsReported) {
  SwapFile file = make(4 * kMiB);
  const Memory memory(4 * kMiB, 1);
  const int read_only = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(::dup3(read_only, file.descriptor(), O_CLOEXEC), 0);
  ::close(read_only);
  EXPECT_THAT(message_of([&] { write_and_wait(file, kMiB, memory.part(0, kMiB)); }),
              AllOf(HasSubstr(folder_.path().string()), HasSubstr("cannot write"),
                    HasSubstr("Bad file descriptor")));
}

TEST_P(SwapFileTest, ABadDirectoryIsNamed) {
  EXPECT_THAT(message_of([&] { SwapFile(folder_ / "missing", kMiB, GetParam()); }),
              AllOf(HasSubstr("missing: cannot create a file in it"),
                    HasSubstr("No such file or directory")));
  test::write_text(folder_ / "a file", "");
  EXPECT_THAT(message_of([&] { SwapFile(folder_ / "a file", kMiB, GetParam()); }),
              AllOf(HasSubstr("a file: cannot create a file in it"), HasSubstr("Not a directory")));
}

TEST_P(SwapFileTest, ADirectoryThatIsNotWritableIsNamed) {
  std::filesystem::create_directory(folder_ / "closed");
  std::filesystem::permissions(folder_ / "closed", std::filesystem::perms::none);
  const bool root = ::geteuid() == 0;  // root may write anywhere
  if (root) {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms{0755});
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto message = message_of([&] { SwapFile(folder_ / "closed", kMiB, GetParam()); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_THAT(message, AllOf(HasSubstr("closed: cannot create a file in it"),
                             HasSubstr("Permission denied")));
}

TEST_P(SwapFileTest, MoreThanTheDiskHasFreeIsRefusedWithBothNumbers) {
  constexpr int64_t kTooMuch = int64_t{1} << 60;
  EXPECT_THAT(message_of([&] { SwapFile(folder_.path(), kTooMuch, GetParam()); }),
              AllOf(HasSubstr(folder_.path().string()), HasSubstr("1152921504606846976"),
                    ::testing::ContainsRegex("has [0-9]+ bytes free")));
  EXPECT_THROW(SwapFile(folder_.path(), kTooMuch, GetParam()), IoError);
}

TEST_P(SwapFileTest, ReservesItsBytes) {
  const SwapFile file = make(8 * kMiB);
  EXPECT_EQ(file.bytes(), 8 * kMiB);
  struct stat status {};
  ASSERT_EQ(::fstat(file.descriptor(), &status), 0);
  EXPECT_EQ(status.st_size, 8 * kMiB);
  EXPECT_GE(status.st_blocks * 512, 8 * kMiB);
}

TEST_P(SwapFileTest, LeavesNothingBehind) {
  const Memory memory(2 * kMiB);
  const auto use_once = [&] {
    SwapFile file = make(2 * kMiB);
    EXPECT_EQ(count_entries(folder_.path()), 0U);
    file.write(0, memory.span());  // the destructor waits for it
  };
  use_once();
  const auto descriptors = count_entries("/proc/self/fd");
  for (int i = 0; i < 100; ++i) use_once();
  EXPECT_EQ(count_entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(count_entries(folder_.path()), 0U);
}

TEST_P(SwapFileTest, MisalignedOrOutsideIsABrokenInvariant) {
  SwapFile file = make(kMiB);
  const Memory memory(kMiB + kSwapBlock);
  const auto all = memory.part(0, kMiB);
  EXPECT_THROW(file.write(512, memory.part(0, kSwapBlock)), InternalError);
  EXPECT_THROW(file.write(0, memory.part(0, kSwapBlock + 512)), InternalError);
  EXPECT_THROW(file.write(0, memory.part(512, kSwapBlock)), InternalError);
  EXPECT_THROW(file.write(kSwapBlock, all), InternalError);
  EXPECT_THROW(file.write(-kSwapBlock, all), InternalError);
  EXPECT_THROW(file.read(512, memory.part(0, kSwapBlock)), InternalError);
  EXPECT_THROW(file.read(0, memory.span()), InternalError);
  EXPECT_THROW(make(0), InternalError);
  EXPECT_THROW(make(kMiB + 1), InternalError);
  EXPECT_THAT(message_of([&] { file.write(512, all); }), HasSubstr("offset 512"));
}

TEST_P(SwapFileTest, NothingToMoveIsDone) {
  SwapFile file = make(kMiB);
  EXPECT_TRUE(file.done({}));
  file.wait({});
  file.wait(file.write(0, {}));
  file.wait(file.read(kMiB, {}));
}

TEST_P(SwapFileTest, ServesSeveralThreads) {
  constexpr int64_t kThreads = 4, kShare = 3 * kMiB;
  SwapFile file = make(kThreads * kShare);
  std::vector<int> equal_rounds(kThreads);
  std::vector<std::jthread> threads;
  for (int64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const Memory source(kShare), destination(kShare);
      for (uint64_t round = 0; round < 10; ++round) {
        source.fill(round * kThreads + static_cast<uint64_t>(thread));
        const auto write = file.write(thread * kShare, source.span());
        const auto read = file.read(thread * kShare, destination.span());
        file.wait(read);
        file.wait(write);
        equal_rounds[static_cast<size_t>(thread)] += equal(source.span(), destination.span());
      }
    });
  }
  threads.clear();
  EXPECT_THAT(equal_rounds, ::testing::Each(10));
}

TEST_P(SwapFileTest, WorksInMemoryThroughThePageCache) {
  const colossal::test::TemporaryDirectory folder(colossal::test::Storage::memory);
  if (!folder.path().string().starts_with("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  SwapFile file(folder.path(), 3 * kMiB, GetParam());
  EXPECT_THAT(file.method(), HasSubstr("buffered"));
  const Memory source(3 * kMiB, 1), destination(3 * kMiB, 2);
  write_and_wait(file, 0, source.span());
  read_and_wait(file, 0, destination.span());
  EXPECT_TRUE(equal(source.span(), destination.span()));
}

TEST(SwapFileWithoutUringTest, FallsBackToThreadsAndSaysSo) {
  const colossal::test::TemporaryDirectory folder;
  std::jthread([&] {
    // As in containers.
    if (!colossal::test::filter_system_call(SYS_io_uring_setup, SECCOMP_RET_ERRNO | EPERM)) {
      GTEST_SKIP() << "no seccomp filters here";
    }
    SwapFile file(folder.path(), kMiB);
    EXPECT_THAT(file.method(),
                AllOf(::testing::StartsWith("threads, "),
                      HasSubstr("refused: io_uring_setup: Operation not permitted")));
    const Memory source(kMiB, 1), destination(kMiB, 2);
    write_and_wait(file, 0, source.span());
    read_and_wait(file, 0, destination.span());
    EXPECT_TRUE(equal(source.span(), destination.span()));
  }).join();
}

TEST(TransferMemoryTest, IsAlignedAndOfTheSizeAskedFor) {
  for (const auto pages : {PageSize::huge, PageSize::small}) {
    for (const int64_t bytes : {int64_t{1}, kSwapBlock, 2 * kMiB, 5 * kMiB}) {
      const TransferMemory memory(bytes, pages);
      EXPECT_EQ(std::ssize(memory.bytes()), bytes);
      const auto alignment = bytes < 2 * kMiB ? kSwapBlock : 2 * kMiB;  // 2 MiB: a huge page
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.bytes().data()) % alignment, 0U);
      std::memset(memory.bytes().data(), 1, memory.bytes().size());
    }
  }
  EXPECT_THROW(TransferMemory(int64_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace colossal::io
