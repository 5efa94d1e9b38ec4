#include <fmt/format.h>
#include <gmock/gmock.h>

#include "colossal/io/checkpoint_directory.h"
#include "tests/io/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CheckpointListTest : public ::testing::Test {
 protected:
  void make(const std::string& name) { test::write_text(folder_ / name / "config.json", name); }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const Checkpoint& checkpoint : list_checkpoints(folder_.path())) {
      steps.push_back(checkpoint.step);
    }
    return steps;
  }

  colossal::test::TemporaryDirectory folder_{colossal::test::Storage::memory};
};

TEST_F(CheckpointListTest, NamesSortByStep) {
  EXPECT_EQ(checkpoint_name(100), "step-000100");
  EXPECT_EQ(checkpoint_name(12345678), "step-12345678");
  EXPECT_THAT(list_checkpoints(folder_ / "missing"), IsEmpty());
  for (const int64_t step : {1234567, 20, 3, 100}) make(checkpoint_name(step));
  EXPECT_THAT(steps(), ElementsAre(3, 20, 100, 1234567));
  EXPECT_EQ(list_checkpoints(folder_.path())[1].path, folder_ / "step-000020");
}

TEST_F(CheckpointListTest, OtherNamesAreNoCheckpoints) {
  for (const char* name :
       {"step-1", "step-0000001", "step-", "step-000001.bak", "Step-000001", "step--00001",
        "step-99999999999999999999", ".step-000001", ".step-000001.tmp-0123456789abcdef", "x"}) {
    make(name);
  }
  test::write_text(folder_ / "step-000007", "a file");
  EXPECT_THAT(steps(), IsEmpty());
}

TEST_F(CheckpointListTest, AHalfDoneReplacementIsListedAndFinished) {
  make(".step-000005.old-0123456789abcdef");
  EXPECT_THAT(steps(), ElementsAre(5));
  remove_stale_temporaries(folder_.path());
  EXPECT_TRUE(fs::exists(folder_ / "step-000005/config.json"));
}

TEST_F(CheckpointListTest, AReplacementThatIsThereWinsOverWhatItReplaced) {
  for (int64_t step = 0; step < 8; ++step) {  // the two folders are created in both orders
    const std::string old_name = fmt::format(".{}.old-0123456789abcdef", checkpoint_name(step));
    if (step % 2 == 0) make(old_name);
    make(checkpoint_name(step));
    if (step % 2 == 1) make(old_name);
  }
  for (const Checkpoint& checkpoint : list_checkpoints(folder_.path())) {
    EXPECT_EQ(checkpoint.path, folder_ / checkpoint_name(checkpoint.step));
  }
  remove_stale_temporaries(folder_.path());
  EXPECT_EQ(steps().size(), 8U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 8);
}

TEST_F(CheckpointListTest, StaleTemporariesGoButNotThoseInUse) {
  make(".step-000001.tmp-0123456789abcdef");
  make("step-000002");
  make("notes");
  const DirectoryWriter writer = DirectoryWriter::create(folder_ / "step-000003");
  remove_stale_temporaries(folder_.path());
  EXPECT_FALSE(fs::exists(folder_ / ".step-000001.tmp-0123456789abcdef"));
  EXPECT_TRUE(fs::exists(writer.temporary_path()));
  EXPECT_TRUE(fs::exists(folder_ / "step-000002/config.json"));
  EXPECT_TRUE(fs::exists(folder_ / "notes/config.json"));
  remove_stale_temporaries(folder_ / "missing");
}

bool all_count(const Checkpoint&) {
  return true;
}

TEST_F(CheckpointListTest, PruneKeepsTheNewest) {
  for (const int64_t step : {1, 2, 3, 10, 20}) make(checkpoint_name(step));
  make("other");
  prune(folder_.path(), 9, {}, all_count);
  EXPECT_EQ(steps().size(), 5U);
  prune(folder_.path(), 2, {}, all_count);
  EXPECT_THAT(steps(), ElementsAre(10, 20));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 3);
  EXPECT_THROW(prune(folder_.path(), 0, {}, all_count), InternalError);
}

TEST_F(CheckpointListTest, PruneKeepsGivenStepsBesides) {
  for (const int64_t step : {1, 2, 3, 10, 20}) make(checkpoint_name(step));
  const std::vector<fs::path> removed = prune(folder_.path(), 2, {2, 7, 20}, all_count);
  EXPECT_THAT(steps(), ElementsAre(2, 10, 20));
  EXPECT_THAT(removed, ElementsAre(folder_ / "step-000001", folder_ / "step-000003"));
}

TEST_F(CheckpointListTest, WhatDoesNotCountForPruningStays) {
  for (const int64_t step : {1, 2, 3, 10, 20, 30}) make(checkpoint_name(step));
  prune(folder_.path(), 2, {},
        [](const Checkpoint& checkpoint) { return checkpoint.step != 1 && checkpoint.step != 30; });
  EXPECT_THAT(steps(), ElementsAre(1, 10, 20, 30));
}

TEST_F(CheckpointListTest, WhatIsSetAsideIsNoCheckpointAnyMore) {
  for (const char* aside : {"step-000004.aside", "step-000004.aside-2", "step-000004.aside-3"}) {
    make("step-000004");
    EXPECT_EQ(set_aside(folder_ / "step-000004"), folder_ / aside);
    EXPECT_TRUE(fs::exists(folder_ / aside / "config.json"));
  }
  EXPECT_THAT(steps(), IsEmpty());
  remove_stale_temporaries(folder_.path());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 3);
}

}  // namespace
}  // namespace colossal::io
