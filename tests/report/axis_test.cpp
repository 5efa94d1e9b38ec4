#include "colossal/report/axis.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace colossal::report {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> texts;
  for (const Tick& tick : axis.ticks) texts.push_back(tick.label);
  return texts;
}

TEST(LinearTicks, AreRoundAndWithinTheRange) {
  EXPECT_THAT(linear_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(linear_ticks(1, 500, 6), ElementsAre(100, 200, 300, 400, 500));
  EXPECT_THAT(linear_ticks(-3, 3, 6), ElementsAre(-3, -2, -1, 0, 1, 2, 3));
  const double ulp = 1e-12;
  EXPECT_THAT(linear_ticks(0.07, 0.31, 5),
              ElementsAre(DoubleNear(0.1, ulp), DoubleNear(0.15, ulp), DoubleNear(0.2, ulp),
                          DoubleNear(0.25, ulp), DoubleNear(0.3, ulp)));
}

TEST(LinearTicks, WholeNumbersWhereAsked) {
  EXPECT_THAT(linear_ticks(1, 3, 6, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(linear_ticks(0.5, 1.5, 6, 1), ElementsAre(1));
}

// Over twenty powers of ten: never more ticks than allowed, never fewer than two.
TEST(LinearTicks, NumberOfThem) {
  for (double span = 1e-10; span < 1e10; span *= 1.37) {
    for (const double low : {0.0, -span / 3, 7 * span}) {
      EXPECT_THAT(linear_ticks(low, low + span, 6).size(), AllOf(Ge(2), Le(7))) << low << span;
    }
  }
}

TEST(LogarithmicTicks, PowersOfTenThinnedOutOrFilledUp) {
  EXPECT_THAT(logarithmic_ticks(0.5, 2000, 5), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(logarithmic_ticks(0.9, 12, 5), ElementsAre(1, 2, 5, 10));
  EXPECT_THAT(logarithmic_ticks(1, 1e12, 5).size(), AllOf(Ge(3), Le(6)));
  EXPECT_THAT(logarithmic_ticks(3, 4, 5).size(), AllOf(Ge(3), Le(6)));  // no round number
}

TEST(ValueAxis, WidensToWholeTicks) {
  const Axis axis = value_axis(1.83, 6.24, AxisScale::linear, kNumber);
  EXPECT_DOUBLE_EQ(axis.low, 1);
  EXPECT_DOUBLE_EQ(axis.high, 7);
  EXPECT_THAT(labels(axis), ElementsAre("1", "2", "3", "4", "5", "6", "7"));
  EXPECT_DOUBLE_EQ(axis.position(1), 0);
  EXPECT_DOUBLE_EQ(axis.position(4), 0.5);
  EXPECT_DOUBLE_EQ(axis.position(7), 1);
}

TEST(ValueAxis, RoundInThePrintedUnit) {
  EXPECT_THAT(labels(value_axis(0, 3.1 * 1024 * 1024, AxisScale::linear, kBytes)),
              ElementsAre("0 B", "1 MiB", "2 MiB", "3 MiB", "4 MiB"));
  EXPECT_THAT(labels(value_axis(0, 0.41, AxisScale::linear, kPercent)),
              ElementsAre("0%", "10%", "20%", "30%", "40%", "50%"));
  EXPECT_THAT(labels(value_axis(0, 24100, AxisScale::linear, kTokensPerSecond)),
              ElementsAre("0", "5k", "10k", "15k", "20k", "25k"));
  EXPECT_THAT(labels(value_axis(0, 6e-4, AxisScale::linear, kNumber)),
              ElementsAre("0", "2e-4", "4e-4", "6e-4"));
}

TEST(ValueAxis, LabelsOfAnyMagnitudeAreShort) {
  for (double high = 1e-100; high < 1e100; high *= 7.3) {
    for (const Unit& unit : {kNumber, kCount, kBytes, kSeconds, kPercent}) {
      for (const AxisScale scale : {AxisScale::linear, AxisScale::logarithmic}) {
        for (const Tick& tick : value_axis(0.6 * high, high, scale, unit).ticks) {
          EXPECT_LE(tick.label.size(), 12u) << tick.label;
        }
      }
    }
  }
}

TEST(ValueAxis, ConstantsGetAir) {
  for (const double value : {0.0, 3.0, -7e-9, 1e12, 1.0 / 3}) {
    const Axis axis = value_axis(value, value, AxisScale::linear, kNumber);
    EXPECT_LE(axis.low, value);
    EXPECT_GT(axis.high, value);
    EXPECT_GE(axis.ticks.size(), 2u) << value;
  }
  // Rounding noise must not fill the height of the chart.
  const Axis noise = value_axis(3, std::nextafter(3.0, 4.0), AxisScale::linear, kNumber);
  EXPECT_LT(noise.low, 2.9);
}

TEST(ValueAxis, Logarithmic) {
  const Axis axis = value_axis(0.1, 1000, AxisScale::logarithmic, kNumber);
  EXPECT_THAT(labels(axis), ElementsAre("0.1", "1", "10", "100", "1000"));
  EXPECT_NEAR(axis.position(10), 0.5, 1e-12);
}

TEST(HorizontalAxis, CoversExactlyTheData) {
  const Axis axis = horizontal_axis(1, 500, true);
  EXPECT_EQ(axis.position(1), 0);
  EXPECT_EQ(axis.position(500), 1);
  EXPECT_THAT(labels(axis), ElementsAre("100", "200", "300", "400", "500"));
  EXPECT_THAT(labels(horizontal_axis(7, 7, true)), ElementsAre("7"));
  EXPECT_EQ(labels(horizontal_axis(0, 1e6, true)).at(1), "0.2M");
}

TEST(IsPlottable, FiniteAndNotHuge) {
  EXPECT_TRUE(is_plottable(-1e100));
  EXPECT_FALSE(is_plottable(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(is_plottable(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(is_plottable(-std::numeric_limits<double>::max()));
}

}  // namespace
}  // namespace colossal::report
