#include "colossal/report/mlflow.h"

#include <gmock/gmock.h>

#include <cmath>

#include "colossal/base/error.h"
#include "tests/report/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

constexpr const char* kRun = "0123456789abcdef0123456789abcdef";

TEST(Mlflow, AStoreHasWhatMlflowReads) {
  const test::TemporaryDirectory scratch;
  const auto open = [&](const char* run) {
    return MlflowRun(scratch / "mlruns", "it's mine", run, "first", {{"a.b", "[1, 2]"}, {"c", ""}});
  };
  MlflowRun run = open(kRun);
  run.write_scalars(1, {{"train/loss", 2.5}, {"missing", NAN}, {"odd:name", 1}});
  run.write_scalars(2, {{"train/loss", 1.25}});
  const std::filesystem::path folder = run.folder();
  EXPECT_EQ(folder.filename(), kRun);
  EXPECT_THAT(read_file(folder.parent_path() / "meta.yaml"), HasSubstr("name: 'it''s mine'\n"));
  EXPECT_THAT(read_file(folder / "meta.yaml"), HasSubstr("end_time: null\n"));
  EXPECT_THAT(read_file(folder / "meta.yaml"), HasSubstr("status: 1\n"));
  EXPECT_EQ(read_file(folder / "params/a.b"), "[1, 2]");
  EXPECT_EQ(read_file(folder / "tags/mlflow.runName"), "first");
  EXPECT_THAT(read_file(folder / "metrics/train/loss"),
              MatchesRegex("[0-9]{13} 2.5 1\n[0-9]{13} 1.25 2\n"));
  EXPECT_TRUE(std::filesystem::exists(folder / "metrics/odd_name"));
  EXPECT_FALSE(std::filesystem::exists(folder / "metrics/missing"));
  run.end(/*failed=*/false);
  EXPECT_THAT(read_file(folder / "meta.yaml"), HasSubstr("status: 3\n"));

  // A resumed run goes on in its folder; another one is in the same experiment.
  MlflowRun resumed = open(kRun);
  EXPECT_EQ(resumed.folder(), folder);
  resumed.write_scalars(3, {{"train/loss", 1}});
  EXPECT_THAT(read_file(folder / "metrics/train/loss"), HasSubstr(" 1.25 2\n"));
  EXPECT_THAT(read_file(folder / "metrics/train/loss"), HasSubstr(" 1 3\n"));
  EXPECT_EQ(open("1123456789abcdef0123456789abcdef").folder().parent_path(), folder.parent_path());
  EXPECT_THROW(MlflowRun("/proc/none", "x", kRun, "first", {}), IoError);
}

}  // namespace
}  // namespace colossal::report
