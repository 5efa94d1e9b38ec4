#include "colossal/server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colossal::server {
namespace {

using testing::HasSubstr;

TEST(Histogram, CountsUpToEachBound) {
  Histogram histogram({1, 2.5});
  for (const double value : {0.5, 1.0, 2.0, 9.0}) histogram.add(value);
  std::string text;
  histogram.write(text, "x", "Help.", "m=\"n\"");
  EXPECT_EQ(text,
            "# HELP colossal:x Help.\n# TYPE colossal:x histogram\n"
            "colossal:x_bucket{m=\"n\",le=\"1\"} 2\ncolossal:x_bucket{m=\"n\",le=\"2.5\"} 3\n"
            "colossal:x_bucket{m=\"n\",le=\"+Inf\"} 4\n"
            "colossal:x_sum{m=\"n\"} 12.5\ncolossal:x_count{m=\"n\"} 4\n");
}

TEST(Metrics, TellsWhatTheEngineSaysAndWhatEnded) {
  Metrics metrics("a \"model\"");
  metrics.finished(serve::FinishReason::length, {.prompt_tokens = 3, .completion_tokens = 7}, 0.2,
                   "an adapter");
  metrics.answered(200);
  const std::string text = metrics.text({.running = 2, .pages = 8, .pages_in_use = 2});
  const std::string label = "{model_name=\"a \\\"model\\\"\"";
  EXPECT_THAT(text, HasSubstr("\ncolossal:num_requests_running" + label + "} 2\n"));
  EXPECT_THAT(text, HasSubstr("\ncolossal:kv_cache_usage_perc" + label + "} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("\ncolossal:request_success_total{model_name=\"an adapter\","
                              "finished_reason=\"length\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ncolossal:prefix_cache_queries_total" + label + "} 0\n"));
  EXPECT_THAT(text, HasSubstr("\ncolossal:prefix_cache_hits_total" + label + "} 0\n"));
  EXPECT_THAT(text, HasSubstr("\ncolossal:request_generation_tokens_sum" + label + "} 7\n"));
}

}  // namespace
}  // namespace colossal::server
