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

TEST(Schedule, UnknownNamesAreRefused) {
  EXPECT_THROW(Schedule({.name = "cosin"}, 1.0, 10), ConfigError);
  EXPECT_THROW(Schedule({.warmup_steps = -1}, 1.0, 10), ConfigError);
}

}  // namespace
}  // namespace colossal::optim
