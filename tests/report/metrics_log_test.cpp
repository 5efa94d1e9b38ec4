#include "colossal/report/metrics_log.h"

#include <gmock/gmock.h>

#include <cmath>

#include "colossal/base/error.h"
#include "tests/report/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<StepMetrics> read(const std::string& contents) {
  const test::TemporaryDirectory scratch;
  write_file(scratch / "metrics.jsonl", contents);
  return read_metrics(scratch / "metrics.jsonl");
}

std::vector<double> losses(const std::vector<StepMetrics>& metrics) {
  std::vector<double> values;
  for (const StepMetrics& step : metrics) values.push_back(step.loss);
  return values;
}

TEST(ReadMetrics, AllKeys) {
  const auto metrics = read(
      R"({"step": 3, "loss": 5.5, "validation_loss": 5.25, "grad_norm": 1.5,)"
      R"( "learning_rate": 3e-4,)"
      R"( "tokens": 8192, "tokens_per_second": 1e4, "step_seconds": 0.8192,)"
      R"( "model_flops_utilization": 0.5, "memory_peak_bytes": 1000000, "device_peak_bytes": 7,)"
      R"( "memory_by_kind": {"activations": 5, "other": 1}, "memory_at_peak": 6,)"
      R"( "memory_base_bytes": 9, "host_bytes": 12,)"
      R"( "tier_bytes": {"host": {"optimizer": {"to": 3, "from": 4}}},)"
      R"( "bytes_sent": {"dp": 64, "dp+sp": 3}, "skipped": true, "unheard_of": [{}]})"
      "\n");
  ASSERT_EQ(metrics.size(), 1u);
  const StepMetrics& step = metrics[0];
  EXPECT_EQ(step.step, 3);
  EXPECT_EQ(step.loss, 5.5);
  EXPECT_EQ(step.validation_loss, 5.25);
  EXPECT_EQ(step.grad_norm, 1.5);
  EXPECT_EQ(step.learning_rate, 3e-4);
  EXPECT_EQ(step.tokens, 8192);
  EXPECT_EQ(step.tokens_per_second, 1e4);
  EXPECT_EQ(step.step_seconds, 0.8192);
  EXPECT_EQ(step.model_flops_utilization, 0.5);
  EXPECT_EQ(step.memory_peak_bytes, 1e6);
  EXPECT_EQ(step.device_peak_bytes, 7);
  EXPECT_THAT(step.memory_by_kind, ElementsAre(Pair("activations", 5), Pair("other", 1)));
  EXPECT_EQ(step.memory_at_peak, 6);
  EXPECT_EQ(step.memory_base_bytes, 9);
  ASSERT_EQ(step.tiers.size(), 1u);
  EXPECT_EQ(step.tiers.at("host").at_rest, 12);
  EXPECT_EQ(step.tiers.at("host").moved.at("optimizer").to, 3);
  EXPECT_EQ(step.tiers.at("host").moved.at("optimizer").from, 4);
  EXPECT_THAT(step.bytes_sent, ElementsAre(Pair("dp", 64), Pair("dp+sp", 3)));
  EXPECT_TRUE(step.skipped);
}

TEST(ReadMetrics, MissingNullAndStrangeValuesAreNaN) {
  const auto metrics = read(R"({"step": 1, "loss": null, "grad_norm": "high", "bytes_sent": 3})");
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_TRUE(std::isnan(metrics[0].loss));
  EXPECT_TRUE(std::isnan(metrics[0].grad_norm));
  EXPECT_TRUE(std::isnan(metrics[0].tokens));
  EXPECT_FALSE(metrics[0].skipped);
  EXPECT_TRUE(metrics[0].bytes_sent.empty());
}

TEST(ReadMetrics, AStepWithoutLabelsHasNoLoss) {
  const auto metrics = read("{\"step\":1,\"loss\":0,\"skipped\":1}\n{\"step\":2,\"loss\":0}\n");
  EXPECT_TRUE(std::isnan(metrics.at(0).loss));
  EXPECT_TRUE(metrics.at(0).skipped);
  EXPECT_EQ(metrics.at(1).loss, 0);
}

TEST(ReadMetrics, ARepeatedStepCountsAsLastWritten) {
  EXPECT_THAT(losses(read("{\"step\":1,\"loss\":9}\n{\"step\":2,\"loss\":8}\n"
                          "{\"step\":3,\"loss\":7}\n{\"step\":2,\"loss\":8.5}\n")),
              ElementsAre(9, 8.5, 7));
}

TEST(ReadMetrics, ATornLastLineAtAnyByte) {
  const std::string whole = "{\"step\":1,\"loss\":9}\n";
  const std::string last = "{\"step\":2,\"loss\":8,\"bytes_sent\":{\"dp\":1}}";
  for (size_t length = 0; length < last.size(); ++length) {
    EXPECT_THAT(losses(read(whole + last.substr(0, length))), ElementsAre(9)) << length;
  }
  EXPECT_THAT(losses(read(whole + last)), ElementsAre(9, 8));
}

TEST(ReadMetrics, AResumedRunThatWroteOnATornLine) {
  const std::string torn = "{\"bytes_sent\":{\"dp\":1},\"lo";
  EXPECT_THAT(losses(read("{\"step\":1,\"loss\":9}\n" + torn +
                          "{\"bytes_sent\":{\"dp\":1},\"loss\":8,\"step\":2}\n"
                          "{\"step\":3,\"loss\":7}\n")),
              ElementsAre(9, 8, 7));
}

TEST(ReadMetrics, OtherLinesArePassedOver) {
  EXPECT_TRUE(read("").empty());
  EXPECT_TRUE(read("\n\nhello\n[1]\n{\"loss\":1}\n{\"step\":\"1\"}\n3\n\0\xFF\n").empty());
}

TEST(ReadMetrics, AFileThatIsNotThere) {
  try {
    read_metrics("/nowhere/metrics.jsonl");
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/metrics.jsonl: No such file"));
  }
  const test::TemporaryDirectory scratch;
  EXPECT_THROW(read_metrics(scratch.path()), IoError);
}

}  // namespace
}  // namespace colossal::report
