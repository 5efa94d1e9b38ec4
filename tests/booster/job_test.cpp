// Whole jobs are refused, or resolved, before anything is allocated.
#include "colossal/booster/job.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using testing::HasSubstr;

RunConfig tiny() {
  RunConfig config;
  config.model.preset = "gpt2-tiny";
  return config;
}

std::string refusal(const RunConfig& config, int ranks) {
  try {
    resolve_job(config, {.ranks = ranks, .local_ranks = ranks, .cores = 2});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ResolveJob, FillsInWhatWasLeftOpen) {
  const Job job =
      resolve_job(tiny(), {.ranks = 4, .local_ranks = 2, .cores = 6, .bf16_instructions = true});
  EXPECT_EQ(job.strategy.dp, 4);
  EXPECT_EQ(job.strategy.zero, 1);
  EXPECT_EQ(job.sequence_length, 256);
  EXPECT_EQ(job.share, 4);
  EXPECT_EQ(job.micro_batch, 4);
  EXPECT_EQ(job.threads, 3);
  EXPECT_EQ(job.precision, (Precision{at::kBFloat16, at::kFloat, at::kBFloat16}));
}

TEST(ResolveJob, ASharedSequenceIsARingUnlessToldOtherwise) {
  RunConfig config = tiny();
  config.parallel.sp = 2;
  const Machine machine{.ranks = 4, .local_ranks = 4, .cores = 2};
  EXPECT_EQ(resolve_job(config, machine).strategy.sequence_mode, SequenceMode::ring);
  config.parallel.sp_mode = "ulysses";
  EXPECT_EQ(resolve_job(config, machine).strategy.sequence_mode, SequenceMode::ulysses);
}

TEST(ResolveJob, PrecisionFollowsTheCpuAndAccumulation) {
  EXPECT_EQ(resolve_precision({}, false, 1), (Precision{at::kFloat, at::kFloat, at::kFloat}));
  EXPECT_EQ(resolve_precision({}, true, 2), (Precision{at::kBFloat16, at::kFloat, at::kFloat}));
  EXPECT_EQ(resolve_precision({.compute = "fp64"}, true, 2),
            (Precision{at::kDouble, at::kDouble, at::kDouble}));
  EXPECT_THROW(resolve_precision({.compute = "fp64", .gradients = "fp32"}, true, 1), ConfigError);
  EXPECT_THROW(resolve_precision({.compute = "fp32", .gradients = "fp64"}, true, 1), ConfigError);
}

TEST(ResolveJob, RefusalsNameTheNearestThatWorks) {
  RunConfig config = tiny();
  config.train.global_batch = 10;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: global_batch = 8"));
  config.train.global_batch = 11;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: global_batch = 12"));
  config.train.global_batch = 1;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: global_batch = 4"));
  config = tiny();
  config.parallel.pp = 2;
  EXPECT_THAT(refusal(config, 4), HasSubstr("dp = 4, pp = 1"));
  config = tiny();
  config.parallel.sp = 4;
  config.parallel.tp = 2;
  EXPECT_EQ(refusal(config, 8), "accepted");
  config.parallel.sp_mode = "ulysses";
  EXPECT_THAT(refusal(config, 8), HasSubstr("nearest: parallel.sp_mode = \"ring\""));
  config.parallel.sp = 2;
  EXPECT_EQ(refusal(config, 8), "accepted");
  config.data.sequence_length = 1;
  EXPECT_THAT(refusal(config, 8), HasSubstr("data.sequence_length = 2"));
  config = tiny();
  config.parallel.tp = 8;
  EXPECT_THAT(refusal(config, 16), HasSubstr("tp = 4, dp = 4"));
  config = tiny();
  config.parallel.zero = 2;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: zero = 1"));
  config = tiny();
  config.data.sequence_length = 2000;
  EXPECT_THAT(refusal(config, 1), HasSubstr("1024 positions"));
  EXPECT_EQ(refusal(tiny(), 4), "accepted");
}

}  // namespace
}  // namespace colossal
