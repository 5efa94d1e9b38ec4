#include "colossal/parallel/pipeline/schedule_text.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/parallel/pipeline/validator.h"
#include "tests/pipeline/cases.h"

namespace colossal::parallel::pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kHeader = "name: mine\nmicro_batches: 2\nrank_of_stage: 0 1\n";

std::string error_of(const std::string& text) {
  try {
    parse_schedule(text, "mine.txt");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ScheduleText, ReadsBackWhatItWrites) {
  for (const ScheduleCase& one : schedule_cases({1, 2, 3, 5})) {
    const Schedule schedule = make_schedule(one.name, with_buffers(one.shape, 3));
    ASSERT_EQ(parse_schedule(schedule_text(schedule), "text"), schedule) << case_name(one);
  }
}

TEST(ScheduleText, IsALineForEachRank) {
  EXPECT_THAT(schedule_text(make_schedule("1f1b", {2, 1, 1})),
              testing::EndsWith("name: 1f1b\nmicro_batches: 1\nbuffers: 2\nrank_of_stage: 0 1\n"
                                "rank 0: RB0.0 F0.0 SF0.0 B0.0\n"
                                "rank 1: RF1.0 F1.0 B1.0 SB1.0\n"));
}

TEST(ScheduleText, AddsMessagesWhereThereAreNone) {
  const Schedule schedule = parse_schedule(
      "# my own\r\n\nname: my own  # not built in\nmicro_batches: 2\nrank_of_stage: 0 1\n"
      "rank 1: F1.0 B1.0\n"
      "rank 0:\tF0.0   F0.1 B0.0 B0.1   # all of it\n"
      "rank 1: F1.1 B1.1",
      "mine.txt");
  Schedule expected = make_schedule("1f1b", {2, 1, 2});
  expected.name = "my own";
  EXPECT_EQ(schedule, expected);
}

TEST(ScheduleText, MarksWhatMayRunAtTheSameTime) {
  const Schedule schedule = parse_schedule(
      "name: pairs\nmicro_batches: 2\nrank_of_stage: 0\nrank 0: F0.0 F0.1& B0.0 B0.1\n", "pairs");
  EXPECT_TRUE(schedule.actions[0][1].overlaps_next);
  EXPECT_FALSE(first_conflict(schedule).has_value());
  EXPECT_THAT(schedule_text(schedule), HasSubstr("rank 0: F0.0 F0.1& B0.0 B0.1\n"));
}

TEST(ScheduleText, NamesLineAndColumnOfAnError) {
  const auto rank_line = [](const std::string& line) { return error_of(kHeader + line); };
  EXPECT_THAT(rank_line("rank 0: F0.0 X0.1"), AllOf(HasSubstr("mine.txt, line 4, column 14"),
                                                    HasSubstr("\"X0.1\" is not an action")));
  EXPECT_THAT(rank_line("rank 0: F0"), HasSubstr("\"F0\" is not an action"));
  EXPECT_THAT(rank_line("rank 0: F0.x"), HasSubstr("a whole number"));
  EXPECT_THAT(rank_line("rank 0: F0.0.1"), HasSubstr("a whole number"));
  EXPECT_THAT(rank_line("rank 0: F0.99999999999999"), HasSubstr("a whole number"));
  EXPECT_THAT(rank_line("rank 0: F2.0"),
              AllOf(HasSubstr("column 9"), HasSubstr("there is no stage 2")));
  EXPECT_THAT(rank_line("rank 0: F0.2"), HasSubstr("there is no micro-batch 2"));
  EXPECT_THAT(rank_line("rank 2: F0.0"), AllOf(HasSubstr("column 6"), HasSubstr("ranks 0 to 1")));
  EXPECT_THAT(rank_line("rank F0.0"), HasSubstr("begins with rank N:"));
  EXPECT_THAT(rank_line("stage 0"), AllOf(HasSubstr("column 1"), HasSubstr("\"stage\"")));
  EXPECT_THAT(error_of("micro_batches: none"), HasSubstr("line 1, column 16"));
  EXPECT_THAT(rank_line("rank_of_stage: 0"),
              AllOf(HasSubstr("line 4, column 1"), HasSubstr("rank_of_stage: is given twice")));
  EXPECT_THAT(error_of("micro_batches: 0"), HasSubstr("1 or more"));
  EXPECT_THAT(error_of("micro_batches: 1 2"), HasSubstr("too much"));
  EXPECT_THAT(error_of("buffers:"), HasSubstr("a number is missing"));
  EXPECT_THAT(error_of("rank_of_stage: 0 9"), HasSubstr("every rank needs one"));
  EXPECT_THAT(error_of("rank 0: F0.0"), HasSubstr("must come before the ranks"));
  EXPECT_THAT(error_of("name:"), HasSubstr("a name is missing"));
  EXPECT_THAT(error_of("micro_batches: 2"), HasSubstr("ends without rank_of_stage:"));
  EXPECT_THAT(error_of(""), HasSubstr("ends without micro_batches:"));
}

// Whatever is cut off or changed, there is a schedule or a ConfigError, and the validator says
// whether it is right.
TEST(ScheduleText, AnyTextIsReadOrRefused) {
  const std::string text = schedule_text(make_schedule("zb-v", {2, 2, 2}));
  for (size_t i = 0; i < text.size(); ++i) {
    for (const std::string& changed :
         {text.substr(0, i), text.substr(0, i) + "9" + text.substr(i + 1),
          text.substr(0, i) + ":" + text.substr(i), text.substr(0, i) + text.substr(i + 1)}) {
      try {
        first_conflict(parse_schedule(changed, "changed"));
      } catch (const ConfigError&) {
      }
    }
  }
}

}  // namespace
}  // namespace colossal::parallel::pipeline
