#include "colossal/parallel/pipeline/drawing.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "colossal/report/page.h"
#include "tests/pipeline/cases.h"
#include "tests/support/run_process.h"
#include "tests/support/temporary_directory.h"

namespace colossal::parallel::pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

report::Timeline drawn(const std::string& name, const PipelineShape& shape, const Costs& costs = {},
                       const std::string& unit = "") {
  const Schedule schedule = make_schedule(name, shape, costs);
  return timeline_of(schedule, simulate(schedule, costs), unit);
}

TEST(Drawing, AsText) {
  EXPECT_EQ(report::timeline_text(drawn("1f1b", {2, 1, 3}), 120),
            "1f1b: 2 ranks, 3 micro-batches\n"
            "12 units of time; 25.0 % of the ranks' time is bubble\n"
            "rank 0  F0 F1 ......B0--- F2 B1--- ...B2---   25.0 % idle\n"
            "rank 1  ...F0 B0--- F1 B1--- F2 B2--- ......  25.0 % idle\n");
}

TEST(Drawing, TellsTheStagesOfARankApart) {
  const report::Timeline timeline = drawn("zb-v", {2, 2, 2});
  EXPECT_EQ(report::timeline_text(timeline, 120),
            "zb-v: 2 ranks, 2 micro-batches\n"
            "13 units of time; 7.7 % of the ranks' time is bubble; pale: every second stage of "
            "a rank\n"
            "rank 0  F0 F1 ...f0 i0 w0 f1 i1 I0 w1 W0 I1 W1   7.7 % idle\n"
            "rank 1  ...F0 f0 F1 f1 i0 I0 w0 W0 i1 I1 w1 W1   7.7 % idle\n");
}

TEST(Drawing, SaysWhatEachSpanIs) {
  const PipelineShape shape{2, 1, 2};
  const std::string figure =
      report::timeline_figure(drawn("zb-h1", shape, equal_costs(shape, {1.5, 2, 1}), "ms"));
  EXPECT_THAT(figure,
              AllOf(HasSubstr("<title>I input gradient of micro-batch 1 in stage 0, from 8.5 "
                              "to 10.5 ms</title>"),
                    HasSubstr("I input gradient</span>"), Not(HasSubstr("B backward")),
                    HasSubstr("% of the ranks&#39; time is bubble")));
}

TEST(Drawing, PairsThatRunTogetherAreOneSpan) {
  const PipelineShape shape{2, 2, 5};
  Costs costs;
  costs.overlapped_share = 1;
  EXPECT_THAT(report::timeline_figure(drawn("dualpipe-v", shape, costs)),
              AllOf(HasSubstr("F3&amp;b1"), HasSubstr("at the same time")));
  EXPECT_THAT(report::timeline_figure(drawn("dualpipe-v", shape)), Not(HasSubstr("&amp;")));
}

TEST(Drawing, IsAPage) {
  const test::TemporaryDirectory scratch;
  const std::string page =
      report::html_page("zb-v", report::timeline_figure(drawn("zb-v", {4, 2, 8})));
  const test::ProcessResult result =
      test::run_process({std::string(COLOSSAL_TEST_SOURCE_DIR) + "/.venv/bin/python",
                         std::string(COLOSSAL_TEST_SOURCE_DIR) + "/tests/report/check_html.py",
                         scratch.write("page.html", page)});
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

// The drawings of docs/pipeline.md are what the program draws. COLOSSAL_WRITE_DRAWINGS=1 writes
// them.
TEST(Drawing, DocumentsShowWhatIsDrawn) {
  const std::filesystem::path folder =
      std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) / "docs" / "pipeline";
  for (const BuiltInSchedule& built_in : schedules()) {
    const report::Timeline timeline = drawn(
        std::string(built_in.name), {4, built_in.default_chunks, 8},
        equal_costs({4, built_in.default_chunks, 8},
                    built_in.default_chunks == 1 ? StageCosts{2, 2, 2} : StageCosts{1, 1, 1}));
    const std::filesystem::path path = folder / (std::string(built_in.name) + ".svg");
    const std::string svg = report::timeline_svg(timeline);
    if (std::getenv("COLOSSAL_WRITE_DRAWINGS")) std::ofstream(path, std::ios::binary) << svg;
    std::ifstream file(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), svg) << path;
  }
}

}  // namespace
}  // namespace colossal::parallel::pipeline
