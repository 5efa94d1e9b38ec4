#include "colossal/report/wandb.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/report/python.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using nlohmann::json;

json records_of(const WandbRun& run) {
  return json::parse(run_python("read_wandb.py", run.file()), nullptr, false);
}

// With settings and metrics that take several blocks, so that records end at and near their
// borders.
TEST(Wandb, AReaderOfItsFormatFindsSettingsAndMetrics) {
  const test::TemporaryDirectory scratch;
  for (int longer = 0; longer < 40; longer += 5) {
    const std::string text(70'000 + longer, 'x');
    WandbRun run(scratch / std::to_string(longer), "my project", "a1b2", "first",
                 {{"optimizer.learning_rate", "0.001"}, {"long", text}});
    for (int step = 1; step <= 40; ++step) {
      run.write_scalars(step, {{"train/loss", 8.0 / step}, {"missing", NAN}, {"λ", -1e30}});
    }
    run.end(/*failed=*/longer % 2 == 1);
    const json records = records_of(run);
    ASSERT_EQ(records.size(), 83u);
    EXPECT_EQ(records[0]["kind"], "header");
    EXPECT_EQ(records[1]["id"], "a1b2");
    EXPECT_EQ(records[1]["project"], "my project");
    EXPECT_EQ(records[1]["name"], "first");
    EXPECT_EQ(records[1]["config"], json({{"optimizer.learning_rate", 0.001}, {"long", text}}));
    for (int step = 1; step <= 40; ++step) {
      const json& history = records[1 + 2 * step];
      EXPECT_EQ(history["kind"], "history");
      EXPECT_EQ(history["num"], 2 + 2 * step);
      EXPECT_EQ(history["_step"], step);
      EXPECT_EQ(history["train/loss"], 8.0 / step);
      EXPECT_EQ(history["λ"], -1e30);
      EXPECT_FALSE(history.contains("missing"));
    }
    EXPECT_EQ(records.back()["kind"], "exit");
    EXPECT_EQ(records.back()["code"], longer % 2);
  }
}

}  // namespace
}  // namespace colossal::report
