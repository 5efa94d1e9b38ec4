#include "colossal/parallel/pipeline/schedule_file.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "tests/pipeline/cases.h"
#include "tests/support/temporary_directory.h"

namespace colossal::parallel::pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of_file(const std::string& path, const PipelineShape& shape) {
  try {
    chosen_schedule(path, shape);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ScheduleFile, WrittenAndReadBackRunsIdentically) {
  const test::TemporaryDirectory scratch;
  for (const BuiltInSchedule& built_in : schedules()) {
    const PipelineShape shape{3, built_in.default_chunks, 7};
    const Costs costs = equal_costs(shape, {2, 3, 1});
    const Schedule schedule = chosen_schedule(std::string(built_in.name), shape, costs);
    write_schedule(scratch / "schedule.txt", schedule);
    const Schedule read = chosen_schedule((scratch / "schedule.txt").string(), shape);
    EXPECT_EQ(read, schedule) << built_in.name;
    EXPECT_EQ(simulate(read, costs).makespan, simulate(schedule, costs).makespan);
  }
}

TEST(ScheduleFile, RefusesWhatIsNotRight) {
  const test::TemporaryDirectory scratch;
  const std::string head = "name: mine\nmicro_batches: 2\nrank_of_stage: 0 1\n";
  const std::string deadlock = scratch.write(
      "deadlock", head + "rank 0: F0.0 B0.0 F0.1 B0.1\nrank 1: F1.0 F1.1 B1.0 B1.1\n");
  EXPECT_THAT(error_of_file(deadlock, {2, 1, 2}),
              AllOf(HasSubstr("\"mine\" cannot run"), HasSubstr("rank 0, position 4: B0.0 waits")));
  const std::string typing = scratch.write("typing", head + "rank 0: F0.0 G0.0\n");
  EXPECT_THAT(error_of_file(typing, {2, 1, 2}), HasSubstr("typing, line 4, column 14"));
  EXPECT_THAT(error_of_file((scratch / "none").string(), {2, 1, 2}), HasSubstr("no such file"));
}

TEST(ScheduleFile, RefusesOtherSizes) {
  const test::TemporaryDirectory scratch;
  write_schedule(scratch / "schedule.txt", make_schedule("zb-v", {2, 2, 3}));
  const std::string path = (scratch / "schedule.txt").string();
  EXPECT_EQ(error_of_file(path, {2, 2, 3}), "no error");
  EXPECT_THAT(error_of_file(path, {2, 2, 4}), HasSubstr("of 3 micro-batches, and this run has 4"));
  EXPECT_THAT(error_of_file(path, {4, 1, 3}),
              HasSubstr("of 2 ranks (parallel.pp), and this run has 4"));
  EXPECT_THAT(error_of_file(path, {2, 1, 3}), HasSubstr("of 4 stages"));
}

}  // namespace
}  // namespace colossal::parallel::pipeline
