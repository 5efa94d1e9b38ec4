#include "colossal/checkpoint/run_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "colossal/base/error.h"
#include "colossal/checkpoint/checkpoint.h"
#include "colossal/checkpoint/write_proof.h"
#include "colossal/io/checkpoint_directory.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const char* const kRun = "0123456789abcdef0123456789abcdef";
const char* const kOther = "f123456789abcdef0123456789abcdef";

// Checkpoints that consist of little more than their state.
class RunFolderTest : public testing::Test {
 protected:
  fs::path path_of(int64_t step) const { return folder_ / io::checkpoint_name(step); }

  void make(int64_t step, const std::string& run = kRun) const {
    io::DirectoryWriter writer = io::DirectoryWriter::create(path_of(step));
    writer.write_file("training_state/state.json", nlohmann::json{{"run", run}}.dump());
    writer.write_file("weights", std::string(kWeights, 'w'));
    writer.sync();
    writer.publish(writer.written());
  }

  void flip_a_byte(int64_t step) const {
    std::fstream file(path_of(step) / "weights", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kWeights / 2);
    file.put('v');
  }

  void cut(int64_t step) const { fs::resize_file(path_of(step) / "weights", kWeights / 2); }

  RunFolder open(const std::string& resume = "auto", int64_t keep = 2) const {
    return {folder_.path(), keep, resume, ParallelContext(*world_, Strategy{})};
  }

  // Saves as a run does.
  void save(RunFolder& folder, int64_t step) const {
    folder.set_aside_existing(path_of(step));
    make(step, folder.run());
    folder.add_saved(path_of(step));
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  template <class E>
  std::string refusal(const std::string& resume) const {
    const std::set<std::string> before = names();
    try {
      open(resume);
      ADD_FAILURE() << "not refused";
      return "";
    } catch (const E& error) {
      EXPECT_EQ(names(), before);
      return error.what();
    }
  }

  // More than is read of each older checkpoint when a folder is opened.
  static constexpr int64_t kWeights = int64_t{2} << 20;
  test::TemporaryDirectory folder_;
  std::unique_ptr<comm::World> world_ = comm::single_world();
};

TEST_F(RunFolderTest, ARunHasAnIdOfItsOwnAndKeepsIt) {
  RunFolder first = open();
  EXPECT_EQ(first.run().size(), 32U);
  EXPECT_NE(first.run(), open().run());
  EXPECT_FALSE(first.start());
  save(first, 10);
  const RunFolder second = open();
  EXPECT_EQ(second.run(), first.run());
  EXPECT_EQ(second.start(), path_of(10));
}

TEST_F(RunFolderTest, AllRanksAgree) {
  std::vector<std::string> runs(3);
  test::run_ranks(3, [&](comm::World& world) {
    const ParallelContext context(world, Strategy{.dp = 3});
    runs[static_cast<size_t>(world.rank())] = RunFolder(folder_.path(), 2, "auto", context).run();
  });
  EXPECT_THAT(runs, testing::Each(runs.front()));
}

TEST_F(RunFolderTest, NeverRefusesAnotherRunsFolder) {
  EXPECT_FALSE(open("never").start());
  make(20);
  make(30);
  EXPECT_THAT(refusal<ConfigError>("never"), AllOf(HasSubstr("step-000020, step-000030"),
                                                   HasSubstr("another checkpoint.directory"),
                                                   HasSubstr("checkpoint.resume = \"auto\"")));
}

TEST_F(RunFolderTest, MustRefusesAnEmptyFolder) {
  EXPECT_THAT(refusal<ConfigError>("must"), HasSubstr("no whole checkpoint"));
}

TEST_F(RunFolderTest, CheckpointsOfSeveralRunsAreRefused) {
  make(10);
  make(100, kOther);
  EXPECT_THAT(refusal<ConfigError>("auto"),
              AllOf(HasSubstr("step-000010 of run 0123"), HasSubstr("step-000100 of run f123")));
}

TEST_F(RunFolderTest, WhereNoneIsWholeNoneIsPassedOver) {
  make(10);
  make(20);
  flip_a_byte(10);
  fs::remove(path_of(20) / "manifest.json");
  for (const char* resume : {"auto", "must"}) {
    EXPECT_THAT(refusal<IoError>(resume),
                AllOf(HasSubstr("step-000010, step-000020"), HasSubstr("move them away")));
  }
}

TEST_F(RunFolderTest, DamagedOnesNeitherCountNorGo) {
  for (const int64_t step : {5, 10, 20, 30}) make(step);
  cut(5);
  flip_a_byte(20);
  fs::create_directory(path_of(999999));
  fs::remove(path_of(30) / "weights");
  RunFolder folder = open();
  EXPECT_EQ(folder.start(), path_of(10));
  for (const int64_t step : {12, 14, 16}) save(folder, step);
  EXPECT_EQ(names(), (std::set<std::string>{"step-000005", "step-000014", "step-000016",
                                            "step-000020", "step-000030", "step-999999"}));
}

TEST_F(RunFolderTest, WhatIsDamagedMeanwhileDoesNotCountEither) {
  RunFolder folder = open();
  save(folder, 1);
  save(folder, 2);
  cut(2);
  save(folder, 3);
  EXPECT_EQ(names(), (std::set<std::string>{"step-000001", "step-000002", "step-000003"}));
}

TEST_F(RunFolderTest, AnotherRunsCheckpointStays) {
  RunFolder folder = open();
  make(100, kOther);
  for (const int64_t step : {1, 2, 3, 100, 101, 102}) save(folder, step);
  EXPECT_EQ(names(), (std::set<std::string>{"step-000100.aside", "step-000101", "step-000102"}));
  EXPECT_TRUE(io::verify_directory(folder_ / "step-000100.aside").empty());
}

TEST_F(RunFolderTest, WhatIsSavedOverIsSetAsideUnlessItIsKnownAsWhole) {
  for (const int64_t step : {10, 20, 30}) make(step);
  flip_a_byte(20);
  fs::remove(path_of(30) / "manifest.json");
  fs::create_directory(path_of(40));
  RunFolder folder = open("auto", 9);
  for (const int64_t step : {10, 20, 30, 30, 40}) save(folder, step);
  EXPECT_EQ(names(), (std::set<std::string>{"step-000010", "step-000020", "step-000020.aside",
                                            "step-000030", "step-000030.aside", "step-000040"}));
  for (const int64_t step : {10, 20, 30, 40}) {
    EXPECT_TRUE(io::verify_directory(path_of(step)).empty()) << step;
  }
}

TEST_F(RunFolderTest, AProofOfWritingLeavesNothing) {
  test::run_ranks(3, [&](comm::World& world) {
    const comm::Group all = world.group("all", {0, 1, 2});
    check_shared_writable("checkpoint.directory", folder_.path(), all);
    check_writable("memory.nvme_path", folder_ / "made", world.rank() == 1, all);
  });
  EXPECT_EQ(names(), (std::set<std::string>{"made"}));
  EXPECT_TRUE(fs::is_empty(folder_ / "made"));
}

TEST_F(RunFolderTest, WhatOneRankCannotWriteAllRefuse) {
  test::run_ranks(2, [&](comm::World& world) {
    const comm::Group all = world.group("all", {0, 1});
    try {
      check_writable("memory.nvme_path", world.rank() == 1 ? "/proc/none" : folder_.path(), true,
                     all);
      ADD_FAILURE() << "not refused";
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1: memory.nvme_path = \"/proc/none\" cannot be "
                                          "written on host "));
    }
  });
}

// Checkpoints in memory are in a second folder.
class RunFolderInMemory : public RunFolderTest {
 protected:
  RunFolder open_both() const {
    return {folder_.path(), 2, "auto", ParallelContext(*world_, Strategy{}), memory_.path()};
  }

  fs::path in_memory(int64_t step) const { return memory_.path() / io::checkpoint_name(step); }

  void make_in_memory(int64_t step, const std::string& run = kRun) const {
    make(step, run);
    fs::rename(path_of(step), in_memory(step));
  }

  test::TemporaryDirectory memory_;
};

TEST_F(RunFolderInMemory, TheNewestOfBothIsTheStart) {
  make(10);
  EXPECT_EQ(open_both().start(), path_of(10));
  make_in_memory(12);
  EXPECT_EQ(open_both().start(), in_memory(12));
  make(14);
  EXPECT_EQ(open_both().start(), path_of(14));
}

TEST_F(RunFolderInMemory, OfTheSameStepTheOneInMemoryIsPreferred) {
  make_in_memory(10);
  make(10);
  EXPECT_EQ(open_both().start(), in_memory(10));
}

TEST_F(RunFolderInMemory, IsEnoughToKnowTheRun) {
  make_in_memory(3);
  const RunFolder folder = open_both();
  EXPECT_EQ(folder.run(), kRun);
  EXPECT_EQ(folder.in_memory().run(), kRun);
  EXPECT_EQ(folder.in_memory().directory(), memory_.path());
}

TEST_F(RunFolderInMemory, ADamagedOneIsPassedOver) {
  make(10);
  make_in_memory(12);
  fs::resize_file(in_memory(12) / "weights", 7);
  EXPECT_EQ(open_both().start(), path_of(10));
}

TEST_F(RunFolderInMemory, KeepsOneCheckpointAndLeavesTheDisk) {
  make(10);
  RunFolder memory = open_both().in_memory();
  for (const int64_t step : {11, 12, 13}) {
    make_in_memory(step);
    memory.add_saved(in_memory(step));
  }
  EXPECT_FALSE(fs::exists(in_memory(12)));
  EXPECT_TRUE(fs::exists(in_memory(13)));
  EXPECT_TRUE(fs::exists(path_of(10)));
}

}  // namespace
}  // namespace colossal::checkpoint
