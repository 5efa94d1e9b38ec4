#include "colossal/report/chart.h"

#include <gmock/gmock.h>

#include <cmath>

#include "colossal/base/error.h"
#include "colossal/report/drawn_series.h"
#include "tests/report/files.h"
#include "tests/report/python.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ChartSeries series(const std::string& name, std::vector<double> y) {
  ChartSeries made{name, {}, std::move(y)};
  for (size_t i = 0; i < made.y.size(); ++i) made.x.push_back(static_cast<double>(i + 1));
  return made;
}

Chart chart_of(std::vector<ChartSeries> all_series, ChartForm form = ChartForm::line) {
  Chart chart{.title = "Loss", .form = form};
  chart.series = std::move(all_series);
  return chart;
}

// Returns the path data of the elements of this class, in order.
std::vector<std::string> paths_of(const std::string& figure, const std::string& kind) {
  const std::string opening = "<path class=\"" + kind + " c", before_data = " d=\"";
  std::vector<std::string> paths;
  for (size_t at = figure.find(opening); at != figure.npos; at = figure.find(opening, at + 1)) {
    const size_t begin = figure.find(before_data, at) + before_data.size();
    paths.push_back(figure.substr(begin, figure.find('"', begin) - begin));
  }
  return paths;
}

void expect_well_formed(const std::string& figure) {
  const test::TemporaryDirectory scratch;
  write_file(scratch / "figure.html", figure);
  run_python("check_html.py", scratch / "figure.html");
  EXPECT_THAT(figure, Not(testing::ContainsRegex("=\"[^\"]*(nan|inf)")));
}

TEST(Chart, ALineThroughItsPoints) {
  const std::string figure = chart_figure(chart_of({series("loss", {0, 5, 10})}));
  EXPECT_THAT(paths_of(figure, "line"), testing::ElementsAre("M0.0,200.0L500.0,100.0L1000.0,0.0"));
  EXPECT_THAT(paths_of(figure, "dots"), IsEmpty());
  expect_well_formed(figure);
}

TEST(Chart, GapsBreakTheLineAndLonePointsAreDots) {
  const std::string figure =
      chart_figure(chart_of({series("loss", {0, 10, NAN, 5, INFINITY, 10, 0, NAN})}));
  const auto lines = paths_of(figure, "line");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(std::ranges::count(lines[0], 'M'), 3);
  EXPECT_EQ(std::ranges::count(lines[0], 'L'), 2);
  const auto dots = paths_of(figure, "dots");
  ASSERT_EQ(dots.size(), 1u);
  EXPECT_EQ(std::ranges::count(dots[0], 'M'), 1);
  expect_well_formed(figure);
}

TEST(Chart, ASinglePointAndAConstant) {
  for (const double value : {0.0, 2.5, -1e-8}) {
    const std::string point = chart_figure(chart_of({series("loss", {value})}));
    EXPECT_EQ(paths_of(point, "dots").size(), 1u);
    expect_well_formed(point);
    expect_well_formed(chart_figure(chart_of({series("loss", {value, value, value})})));
  }
}

TEST(Chart, NothingToShow) {
  for (const Chart& chart :
       {chart_of({}), chart_of({series("loss", {})}), chart_of({series("loss", {NAN, NAN})}),
        chart_of({}, ChartForm::stacked_area)}) {
    const std::string figure = chart_figure(chart);
    EXPECT_THAT(figure, HasSubstr("No data"));
    expect_well_formed(figure);
  }
}

TEST(Chart, LogarithmicLeavesOutWhatHasNoLogarithm) {
  Chart chart = chart_of({series("loss", {1, 0, 100, -1, 10})});
  chart.y_scale = AxisScale::logarithmic;
  const std::string figure = chart_figure(chart);
  EXPECT_EQ(std::ranges::count(paths_of(figure, "line").at(0), 'M'), 3);
  expect_well_formed(figure);
}

TEST(Chart, AMillionPointsAreFewAndTheSpikeStays) {
  ChartSeries many{"loss", {}, {}};
  for (int i = 0; i < 1'000'000; ++i) {
    many.x.push_back(i);
    many.y.push_back(i == 654'321 ? 10.0 : 0.001 * (i % 7));
  }
  const std::string figure = chart_figure(chart_of({std::move(many)}));
  EXPECT_LT(figure.size(), 300'000u);
  EXPECT_THAT(figure, HasSubstr("L654.3,0.0"));
  expect_well_formed(figure);
}

TEST(Chart, StackedAreasAddUp) {
  const Chart chart =
      chart_of({series("dp", {1, 2}), series("tp", {3, NAN})}, ChartForm::stacked_area);
  const auto layers = drawn_series(chart);
  EXPECT_THAT(layers[1].base, testing::ElementsAre(1, 2));
  EXPECT_THAT(layers[1].top, testing::ElementsAre(4, 2));
  const std::string figure = chart_figure(chart);
  EXPECT_EQ(paths_of(figure, "area").at(0), "M0.0,150.0L1000.0,100.0L1000.0,200.0L0.0,200.0Z");
  expect_well_formed(figure);
}

TEST(Chart, StackedSeriesMayHaveStepsOfTheirOwn) {
  Chart chart = chart_of({series("dp", {1, 1, 1})}, ChartForm::stacked_area);
  chart.series.push_back({"tp", {2, 4}, {5, 6}});
  const auto layers = drawn_series(chart);
  EXPECT_THAT(layers[0].x, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(layers[0].top, testing::ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(layers[1].top, testing::ElementsAre(1, 6, 1, 6));
}

TEST(Chart, StackedBars) {
  const std::string figure =
      chart_figure(chart_of({series("dp", {1, 2}), series("tp", {3, 0})}, ChartForm::stacked_bar));
  EXPECT_THAT(paths_of(figure, "area").at(0),
              testing::StartsWith("M50.0,200.0V150.0H450.0V200.0Z"));
  expect_well_formed(figure);
  // An area over one step would have no width.
  const std::string single = chart_figure(chart_of({series("dp", {1})}, ChartForm::stacked_area));
  EXPECT_THAT(paths_of(single, "area").at(0), HasSubstr("H900.0"));
}

TEST(Chart, TheLegendSaysTheLastValues) {
  const std::string figure =
      chart_figure(chart_of({series("training", {3, 2.5, NAN}), series("validation", {4, 3, 2})}));
  EXPECT_THAT(figure, HasSubstr("training</span> <output>2.500</output>"));
  EXPECT_THAT(figure, HasSubstr("validation</span> <output>2.000</output>"));
}

TEST(Chart, HostileNames) {
  const std::string hostile = "</script><script>alert(1)</script>\"'&\xFF";
  Chart chart = chart_of({series(hostile, {1, 2}), series("b", {1, 2})});
  chart.title = chart.note = chart.x_name = hostile;
  const std::string figure = chart_figure(chart);
  EXPECT_THAT(figure, Not(HasSubstr("<script>alert")));
  EXPECT_EQ(std::ranges::count(figure, '\xFF'), 0);
  expect_well_formed(figure);
}

TEST(Chart, BrokenSeries) {
  EXPECT_THROW(chart_figure(chart_of({{"loss", {1, 2}, {1}}})), InternalError);
  EXPECT_THROW(chart_figure(chart_of({{"loss", {2, 1}, {1, 1}}})), InternalError);
  EXPECT_THROW(chart_figure(chart_of({{"loss", {1, NAN}, {1, 1}}})), InternalError);
}

}  // namespace
}  // namespace colossal::report
