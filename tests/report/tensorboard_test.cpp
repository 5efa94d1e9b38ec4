#include "colossal/report/tensorboard.h"

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "tests/report/files.h"
#include "tests/report/python.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::StartsWith;

// Reads events with TensorBoard's own reader.
json read_events(const std::filesystem::path& directory) {
  return json::parse(run_python("read_events.py", directory), nullptr, false);
}

TEST(TensorBoard, ItsReaderFindsTagsStepsTimesAndValues) {
  const test::TemporaryDirectory scratch;
  TensorBoardWriter writer(scratch / "new/events");
  for (int step = 1; step <= 300; ++step) {
    const Scalar scalars[] = {{"train/loss", 8.0 / step}, {"train/learning_rate", 6e-4}};
    writer.write_scalars(step, scalars, 1.7e9 + step);
  }
  const Scalar far[] = {{"evaluation/λ", -1e30}};
  writer.write_scalars(int64_t{1} << 40, far, 1.8e9);
  writer.write_text(7, "sample", "def f(x):\n  return \"<x>\"", 1.7e9);

  const json events = read_events(scratch / "new/events");
  const json& loss = events.at("scalars").at("train/loss");
  ASSERT_EQ(loss.size(), 300u);
  for (int step = 1; step <= 300; ++step) {
    EXPECT_EQ(loss[step - 1], json({step, 1.7e9 + step, static_cast<float>(8.0 / step)}));
  }
  EXPECT_EQ(events["scalars"]["train/learning_rate"][9][2], 6e-4F);
  EXPECT_EQ(events["scalars"]["evaluation/λ"], json({{int64_t{1} << 40, 1.8e9, -1e30F}}));
  EXPECT_EQ(events.at("texts").at("sample"), json({{7, 1.7e9, "def f(x):\n  return \"<x>\""}}));
}

// A file may end within its last record: all records before it are read.
TEST(TensorBoard, ATornRecordHidesNothingBeforeIt) {
  const test::TemporaryDirectory scratch;
  TensorBoardWriter writer(scratch.path());
  for (int step = 1; step <= 3; ++step) {
    const Scalar scalars[] = {{"loss", 1.0 * step}};
    writer.write_scalars(step, scalars);
  }
  std::filesystem::resize_file(writer.path(), std::filesystem::file_size(writer.path()) - 5);
  EXPECT_EQ(read_events(scratch.path())["scalars"]["loss"].size(), 2u);
}

TEST(TensorBoard, AKilledProcessLeavesAllItsSteps) {
  const test::TemporaryDirectory scratch;
  const pid_t child = ::fork();
  if (child == 0) {
    TensorBoardWriter writer(scratch.path());
    const Scalar scalars[] = {{"loss", 2.5}};
    writer.write_scalars(1, scalars);
    writer.write_scalars(2, scalars);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_events(scratch.path())["scalars"]["loss"].size(), 2u);
}

TEST(TensorBoard, TwoWritersAtOnceHaveAFileEach) {
  const test::TemporaryDirectory scratch;
  const TensorBoardWriter first(scratch.path()), second(scratch.path());
  EXPECT_NE(first.path(), second.path());
  for (const auto* writer : {&first, &second}) {
    EXPECT_THAT(writer->path().filename().string(), StartsWith("events.out.tfevents."));
    EXPECT_GT(std::filesystem::file_size(writer->path()), 0u);
  }
}

TEST(TensorBoard, ADirectoryThatCannotBe) {
  const test::TemporaryDirectory scratch;
  write_file(scratch / "file", "");
  EXPECT_THROW(TensorBoardWriter(scratch / "file"), IoError);
}

}  // namespace
}  // namespace colossal::report
