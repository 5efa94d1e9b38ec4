#include "colossal/optim/schedule.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal::optim {
namespace {

TEST(Schedule, WarmsUpLinearly) {
  const Schedule schedule({.name = "constant", .warmup_steps = 4}, 2.0, 100);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 2.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(5), 2.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(100), 2.0);
}

TEST(Schedule, CosineFallsFromPeakToMinimum) {
  const Schedule schedule({.name = "cosine", .warmup_steps = 10, .minimum_ratio = 0.1}, 1.0, 110);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(11), 1.0);
  EXPECT_NEAR(schedule.learning_rate(61), 0.55, 1e-12);  // half way
  EXPECT_NEAR(schedule.learning_rate(111), 0.1, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(500), 0.1, 1e-12);  // stays at the minimum
}

// transformers' get_cosine_schedule_with_warmup(warmup 2, steps 6) gives 1, 0.854, 0.5, 0.146 to
// the updates 3 to 6.
TEST(Schedule, TheLastStepIsNotYetTheMinimum) {
  const Schedule schedule({.name = "cosine", .warmup_steps = 2, .minimum_ratio = 0.1}, 1.0, 6);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(2), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(3), 1.0);
  EXPECT_NEAR(schedule.learning_rate(4), 0.1 + 0.9 * 0.853553, 1e-6);
  EXPECT_NEAR(schedule.learning_rate(6), 0.1 + 0.9 * 0.146447, 1e-6);
}

TEST(Schedule, LinearFallsEvenly) {
  const Schedule schedule({.name = "linear"}, 1.0, 4);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(2), 0.75);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 0.25);
}

std::vector<double> rates(const ScheduleConfig& config, int64_t total,
                          const std::vector<int64_t>& steps) {
  const Schedule schedule(config, 1.0, total);
  std::vector<double> rates;
  for (const int64_t step : steps) rates.push_back(schedule.learning_rate(step));
  return rates;
}

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

MATCHER(IsNear, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-12;
}

TEST(Schedule, PolynomialIsAPowerOfWhatIsLeft) {
  EXPECT_THAT(rates({.name = "polynomial", .minimum_ratio = 0.1, .power = 2}, 10, {1, 6, 11}),
              Pointwise(IsNear(), {1.0, 0.1 + 0.9 * 0.25, 0.1}));
}

TEST(Schedule, StepsMultiply) {
  EXPECT_THAT(rates({.name = "step", .decay_factor = 0.5, .step_size = 3}, 10, {1, 3, 4, 7}),
              Pointwise(IsNear(), {1.0, 1.0, 0.5, 0.25}));
  EXPECT_THAT(
      rates({.name = "multistep", .decay_factor = 0.5, .milestones = {2, 5}}, 10, {2, 3, 6}),
      Pointwise(IsNear(), {1.0, 0.5, 0.25}));
  EXPECT_THAT(
      rates({.name = "exponential", .minimum_ratio = 0.7, .decay_factor = 0.9}, 10, {1, 2, 3, 9}),
      Pointwise(IsNear(), {1.0, 0.9, 0.81, 0.7}));
}

TEST(Schedule, FlatCosineIsFlatFirst) {
  EXPECT_THAT(rates({.name = "flat_cosine", .flat_ratio = 0.5}, 8, {1, 5, 7, 9}),
              Pointwise(IsNear(), {1.0, 1.0, 0.5, 0.0}));
}

TEST(Schedule, CosineRestarts) {
  EXPECT_THAT(rates({.name = "cosine_restarts", .cycles = 2}, 8, {1, 3, 5, 7, 9}),
              Pointwise(IsNear(), {1.0, 0.5, 1.0, 0.5, 0.0}));
}

TEST(Schedule, RootsFallForever) {
  EXPECT_THAT(rates({.name = "inverse_sqrt", .warmup_steps = 4}, 10, {4, 5, 17}),
              Pointwise(IsNear(), {1.0, 1.0, 0.5}));
  EXPECT_THAT(rates({.name = "power", .warmup_steps = 4, .power = 1}, 100, {5, 9, 21}),
              Pointwise(IsNear(), {1.0, 0.5, 0.2}));
}

TEST(Schedule, WsdFallsInTheLastSteps) {
  EXPECT_THAT(rates({.name = "wsd", .warmup_steps = 2}, 20, {1, 3, 19, 20, 21}),
              Pointwise(IsNear(), {0.5, 1.0, 1.0, 0.5, 0.0}));
  EXPECT_THAT(rates({.name = "wsd", .minimum_ratio = 0.2, .decay_steps = 4, .decay_shape = "sqrt"},
                    20, {17, 18, 21}),
              Pointwise(IsNear(), {1.0, 0.2 + 0.8 * 0.5, 0.2}));
  EXPECT_THAT(rates({.name = "power", .decay_steps = 2}, 4, {3, 4}),
              Pointwise(IsNear(), {std::sqrt(1.0 / 3), 0.25}));
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10)
TEST(Schedule, OneCycleIsThatOfPyTorch) {
  EXPECT_THAT(rates({.name = "one_cycle"}, 10, {1, 2, 3, 4, 7, 10}),
              Pointwise(testing::DoubleNear(1e-9),
                        {0.04, 0.52, 1.0, 0.9504846320134737, 0.38874197806371075, 4e-6}));
}

TEST(Schedule, UnknownNamesAreRefused) {
  EXPECT_THROW(Schedule({.name = "one_cycle", .warmup_steps = 1}, 1.0, 10), ConfigError);
  EXPECT_THROW(Schedule({.name = "cosine", .decay_steps = 1}, 1.0, 10), ConfigError);
  EXPECT_THROW(Schedule({.name = "multistep", .milestones = {5, 2}}, 1.0, 10), ConfigError);
  EXPECT_THROW(Schedule({.name = "multistep"}, 1.0, 10), ConfigError);
  EXPECT_THROW(Schedule({.name = "cosin"}, 1.0, 10), ConfigError);
  EXPECT_THROW(Schedule({.warmup_steps = -1}, 1.0, 10), ConfigError);
}

}  // namespace
}  // namespace colossal::optim
