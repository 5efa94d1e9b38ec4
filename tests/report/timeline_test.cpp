#include "colossal/report/timeline.h"

#include <gmock/gmock.h>

#include "colossal/report/page.h"
#include "tests/report/files.h"
#include "tests/report/python.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Timeline two_rows() {
  Timeline timeline;
  timeline.title = "Two & more";
  timeline.note = "half of it";
  timeline.time_name = "ms";
  timeline.categories = {{"forward", 1}, {"backward", 4}};
  timeline.rows = {
      {"a",
       "25 % idle",
       {{0, 2, 0, false, "F0", "F0: <0 to 2>"}, {4, 10, 1, true, "B0", "B0: 4 to 10"}}},
      {"bb", "", {{2, 4, 0, false, "F0", "F0: 2 to 4"}}}};
  return timeline;
}

TEST(Timeline, AsText) {
  EXPECT_EQ(timeline_text(two_rows(), 80),
            "Two & more\nhalf of it\n"
            "a   F0 ...B0------   25 % idle\n"
            "bb  ...F0 .........\n");
}

// 16 columns for ten units of time: labels are cut, but no span is left out.
TEST(Timeline, AsTextInLittleRoom) {
  Timeline timeline = two_rows();
  timeline.rows[0].spans[0].label = "F1000";
  EXPECT_EQ(timeline_text(timeline, 31),
            "Two & more\nhalf of it\n"
            "a   F10...B0-------   25 % idle\n"
            "bb  ...F0 ..........\n");
  EXPECT_EQ(timeline_text({.title = "nothing"}, 80), "nothing\n");
}

TEST(Timeline, AsAFigureOfAPage) {
  const std::string figure = timeline_figure(two_rows());
  EXPECT_THAT(
      figure,
      AllOf(HasSubstr("<b>Two &amp; more</b>"), HasSubstr("<title>F0: &lt;0 to 2&gt;</title>"),
            HasSubstr("<rect x=\"0.00\" y=\"0.0\" width=\"200.00\" height=\"24\"/>"),
            HasSubstr("<g class=\"c4 pale\"><title>B0: 4 to 10</title><rect x=\"400.00\""),
            HasSubstr("<span class=\"name\">backward</span>")));
  const test::TemporaryDirectory scratch;
  write_file(scratch / "page.html", html_page("page", figure));
  const std::string text = run_python("check_html.py", scratch / "page.html");
  EXPECT_THAT(text, AllOf(HasSubstr("half of it"), HasSubstr("25 % idle"), HasSubstr("ms")));
}

TEST(Timeline, LeavesOutLabelsThatDoNotFit) {
  Timeline timeline = two_rows();
  timeline.rows[1].spans.push_back({9.99, 10, 1, false, "B77", "short"});
  EXPECT_THAT(timeline_figure(timeline), AllOf(Not(HasSubstr(">B77<")), HasSubstr(">short<")));
}

TEST(Timeline, AsAFile) {
  const test::TemporaryDirectory scratch;
  write_file(scratch / "timeline.svg", timeline_svg(two_rows()));
  const std::string summary = run_python("check_svg.py", scratch / "timeline.svg");
  // Background, two rows' idle time, three spans, two keys; nothing outside of the drawing.
  EXPECT_EQ(summary, "8 rectangles, 3 titles\n");
}

TEST(Timeline, OfNothing) {
  const test::TemporaryDirectory scratch;
  write_file(scratch / "timeline.svg", timeline_svg({.title = "nothing"}));
  EXPECT_EQ(run_python("check_svg.py", scratch / "timeline.svg"), "1 rectangles, 0 titles\n");
}

}  // namespace
}  // namespace colossal::report
