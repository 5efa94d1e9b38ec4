// Kills a save, or lets its disk fail, at each of its file operations in turn. After each, the
// folder must list whole checkpoints only, the older one among them, and the next save must work.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <set>
#include <sstream>

#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/hidden_sibling.h"
#include "tests/io/files.h"
#include "tests/support/run_process.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

namespace fs = std::filesystem;
using colossal::test::fault_environment;
using colossal::test::ProcessResult;
using colossal::test::run_process;

constexpr const char* kWorker = COLOSSAL_TEST_BINARY_DIR "/checkpoint_worker";
// More file operations than any scenario has.
constexpr int kEnough = 200;

struct Scenario {
  const char* name;
  int64_t step;        // step to save; steps 1 and 2 exist, filled with 'a'
  const char* faults;  // besides the fault at the k-th operation
};

class CheckpointCrashTest : public ::testing::TestWithParam<Scenario> {
 protected:
  CheckpointCrashTest() {
    for (const char* step : {"1", "2"}) {
      const auto saved = run_process({kWorker, original_.path(), step, "a", "9"});
      EXPECT_EQ(saved.exit_code, 0) << saved.output;
    }
  }

  // Makes a new copy of the two checkpoints and saves into it under `fault`.
  ProcessResult save(const fs::path& folder, const std::string& fault) {
    fs::remove_all(folder);
    fs::copy(original_.path(), folder, fs::copy_options::recursive);
    return run_process({kWorker, folder, std::to_string(GetParam().step), "b", "2"},
                       fault_environment(folder, GetParam().faults + fault));
  }

  void expect_sound(const fs::path& folder) {
    std::set<int64_t> steps;
    for (const Checkpoint& checkpoint : list_checkpoints(folder)) {
      steps.insert(checkpoint.step);
      for (const Damage& damage : verify_directory(checkpoint.path)) ADD_FAILURE() << damage.what;
      const std::string model = read_file(checkpoint.path / "model.safetensors");
      const std::string config = read_file(checkpoint.path / "config.json");
      EXPECT_EQ(model, std::string(model.size(), config[0]))
          << checkpoint.path << " is of two saves";
      EXPECT_TRUE(config[0] == 'a' || checkpoint.step >= GetParam().step);
    }
    EXPECT_TRUE(steps.contains(2) || steps.contains(4));
    EXPECT_GE(steps.size(), 2U);
  }

  void expect_next_save_works(const fs::path& folder) {
    const auto saved = run_process({kWorker, folder, "4", "b", "2"});
    EXPECT_EQ(saved.exit_code, 0) << saved.output;
    EXPECT_EQ(list_checkpoints(folder).back().step, 4);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2) << "left-overs";
    expect_sound(folder);
  }

  colossal::test::TemporaryDirectory original_{colossal::test::Storage::memory};
  colossal::test::TemporaryDirectory work_{colossal::test::Storage::memory};
};

TEST_P(CheckpointCrashTest, KilledAtAnyOperation) {
  for (const char* moment : {"before", "half", "after"}) {
    const bool writes_only = std::string(moment) == "half";
    int k = 1;
    for (; k < kEnough; ++k) {
      const std::string fault =
          fmt::format("{}:{}:{}=kill", writes_only ? "write" : "any", k, moment);
      SCOPED_TRACE(fault);
      const auto result = save(work_ / "run", fault);
      expect_sound(work_ / "run");
      if (result.signal == 0) break;
      ASSERT_EQ(result.signal, SIGKILL) << result.output;
      if (k % 5 == 0) expect_next_save_works(work_ / "run");
    }
    EXPECT_GT(k, writes_only ? 7 : 25);
    EXPECT_LT(k, kEnough);
  }
}

TEST_P(CheckpointCrashTest, AFailingDiskLeavesWhatWasThere) {
  for (const char* error : {"ENOSPC", "EIO"}) {
    for (int k = 1; k < kEnough; ++k) {
      const std::string fault = fmt::format("any:{}={}", k, error);
      SCOPED_TRACE(fault);
      const auto result = save(work_ / "run", fault);
      expect_sound(work_ / "run");
      EXPECT_EQ(result.signal, 0);
      EXPECT_TRUE(fs::exists(work_ / "run/step-000002"));
      if (result.exit_code == 1) {
        EXPECT_THAT(result.output,
                    ::testing::HasSubstr(std::string(error) == "EIO" ? "Input/output error"
                                                                     : "No space left on device"));
        EXPECT_THAT(result.output, ::testing::HasSubstr((work_ / "run").string()));
      } else {
        EXPECT_EQ(list_checkpoints(work_ / "run").back().step,
                  std::max<int64_t>(GetParam().step, 2));
      }
      if (k % 5 == 0) expect_next_save_works(work_ / "run");
      if (k > 40) break;
    }
  }
}

TEST_P(CheckpointCrashTest, AFullDiskLeavesNoTemporaries) {
  for (int k = 1; k < 12; ++k) {
    const auto result = save(work_ / "run", fmt::format("write:{}+=ENOSPC", k));
    expect_sound(work_ / "run");
    if (result.exit_code == 0) break;
    EXPECT_THAT(result.output, ::testing::ContainsRegex("cannot write [0-9]+ bytes at offset "
                                                        "[0-9]+: No space left on device"));
    EXPECT_EQ(std::distance(fs::directory_iterator(work_ / "run"), {}), 2);
    EXPECT_EQ(read_file(work_ / "run/step-000002/config.json"), std::string(10, 'a'));
  }
}

TEST_P(CheckpointCrashTest, ShortAndInterruptedCallsAreContinued) {
  const auto result = save(work_ / "run", "write:1+=short");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  expect_sound(work_ / "run");
  for (const char* kind : {"write", "fsync", "open", "resize"}) {
    const auto interrupted = save(work_ / "run", fmt::format("{0}:1=EINTR,{0}:3=EINTR", kind));
    EXPECT_EQ(interrupted.exit_code, 0) << interrupted.output;
    expect_sound(work_ / "run");
  }
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointCrashTest,
                         ::testing::Values(Scenario{"NewStep", 3, ""}, Scenario{"SameStep", 2, ""},
                                           // On a file system that cannot exchange two names.
                                           Scenario{"SameStepByTwoRenames", 2, "rename:1=EINVAL,"}),
                         [](const auto& info) { return info.param.name; });

// After a kill, the kernel's memory is still in order; after a power cut, it is lost. So when a
// name becomes visible, everything below it must have been synced after its last change.
TEST(CheckpointPowerCutTest, EverythingIsSyncedBeforeItsNameIsVisible) {
  const colossal::test::TemporaryDirectory work;
  auto environment = fault_environment(work.path(), "");
  environment["COLOSSAL_FAULT_LOG"] = work / "log";
  const auto folder = work / "run";
  for (const char* fill : {"a", "b"}) {
    fs::remove(work / "log");
    ASSERT_EQ(run_process({kWorker, folder, "1", fill, "1"}, environment).exit_code, 0);
    std::set<std::string> unsynced;  // files and folders changed since their last fsync
    int renames = 0;
    std::ifstream log(work / "log");
    for (std::string kind, path; log >> kind >> path;) {
      std::string target;
      if (kind == "rename") {
        log >> target;
        unsynced.erase(folder);  // if the temporary's name is lost, so is the temporary
        EXPECT_THAT(unsynced, ::testing::IsEmpty()) << "at the rename to " << target;
        unsynced.insert(folder);
        ++renames;
      } else if (kind == "fsync") {
        unsynced.erase(path);
      } else if (kind == "write" || kind == "resize") {
        unsynced.insert(path);
      } else if (renames == 0) {  // open and mkdir change the parent folder
        unsynced.insert(fs::path(path).parent_path());
        if (kind == "open") unsynced.insert(path);
      }
    }
    EXPECT_EQ(renames, 1);
    EXPECT_FALSE(unsynced.contains(folder)) << "the new name was not brought to the disk";
  }
}

}  // namespace
}  // namespace colossal::io
