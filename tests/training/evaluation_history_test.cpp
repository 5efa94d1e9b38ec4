#include "colossal/training/evaluation_history.h"

#include <gmock/gmock.h>

#include <limits>

namespace colossal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RunConfig config_of(int64_t keep_best, int64_t early_stopping = 0, double threshold = 0) {
  RunConfig config;
  config.checkpoint.keep_best = keep_best;
  config.train.early_stopping = early_stopping;
  config.train.early_stopping_threshold = threshold;
  return config;
}

TEST(EvaluationHistory, KnowsTheBestSteps) {
  EvaluationHistory history(config_of(2));
  EXPECT_TRUE(history.add(10, 3));
  EXPECT_TRUE(history.add(20, 2));
  EXPECT_TRUE(history.add(30, 2.5));
  EXPECT_FALSE(history.add(40, 2.5));  // of equal values the earlier one is better
  EXPECT_FALSE(history.add(50, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_THAT(history.best_steps(), ElementsAre(20, 30));
  EXPECT_EQ(history.describe_best(), "step 20, validation_loss 2");
  EXPECT_TRUE(history.add(60, 1));
  EXPECT_THAT(history.best_steps(), ElementsAre(20, 60));
  RunConfig highest = config_of(1);
  highest.checkpoint.best_is = "highest";
  EvaluationHistory rewards(highest);
  EXPECT_TRUE(rewards.add(1, -5));
  EXPECT_TRUE(rewards.add(2, -4));
  EXPECT_FALSE(rewards.add(3, -4.5));
  EXPECT_THAT(rewards.best_steps(), ElementsAre(2));
}

TEST(EvaluationHistory, KeepsNoneUnlessAsked) {
  EvaluationHistory history(config_of(0));
  EXPECT_FALSE(history.add(1, 3));
  EXPECT_THAT(history.best_steps(), IsEmpty());
  EXPECT_FALSE(history.ends_run());
}

TEST(EvaluationHistory, EndsARunWithoutImprovement) {
  EvaluationHistory history(config_of(0, 2, 0.1));
  for (const double value : {3.0, 2.95, 2.8, 2.75}) {
    history.add(static_cast<int64_t>(100 * (4 - value)), value);
    EXPECT_FALSE(history.ends_run()) << value;
  }
  history.add(200, 2.71);  // the second that is not better than 2.8 by 0.1
  EXPECT_TRUE(history.ends_run());
}

TEST(EvaluationHistory, GoesOnAsItWasSaved) {
  EvaluationHistory history(config_of(2, 3));
  history.add(10, 3);
  history.add(20, 1);
  history.add(30, 2);
  history.add(40, 2);
  EvaluationHistory resumed(config_of(2, 3));
  resumed.restore(nlohmann::json::parse(history.to_json().dump()));
  EXPECT_EQ(resumed.to_json(), history.to_json());
  EXPECT_FALSE(resumed.ends_run());
  // A step that is repeated replaces what came after it.
  resumed.add(40, 0.5);
  EXPECT_THAT(resumed.best_steps(), ElementsAre(20, 40));
  history.add(50, 2);
  EXPECT_TRUE(history.ends_run());
  EvaluationHistory other(config_of(2, 3));
  nlohmann::json of_rewards = history.to_json();
  of_rewards["metric"] = "rewards";
  other.restore(of_rewards);
  EXPECT_EQ(other.describe_best(), "");
}

}  // namespace
}  // namespace colossal
