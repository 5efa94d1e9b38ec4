// Whole jobs are refused, or resolved, before anything is allocated.
#include "colossal/booster/job.h"

#include <gmock/gmock.h>

#include <functional>
#include <vector>

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
  EXPECT_EQ(resolve_job(tiny(), {.cores = 6, .most_threads = 2}).threads, 2);
  EXPECT_EQ(resolve_job(tiny(), {.cores = 2, .most_threads = 4}).threads, 2);
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

TEST(ResolveJob, ATensorModeNeedsNoMoreThanItsName) {
  RunConfig config = tiny();
  config.parallel.tp = 8;
  const Machine machine{.ranks = 16, .local_ranks = 16, .cores = 2};
  config.parallel.tp_mode = "3d";
  Strategy strategy = resolve_job(config, machine).strategy;
  EXPECT_EQ(strategy.tensor_mode, TensorMode::three_d);
  EXPECT_EQ(strategy.tensor_side(), 2);
  EXPECT_FALSE(strategy.tp_sequence);
  config.parallel.tp_mode = "2.5d";
  strategy = resolve_job(config, machine).strategy;
  EXPECT_EQ(strategy.tp_depth, 2);
  EXPECT_EQ(strategy.dp, 2);
  config.parallel.tp_mode = "1d";
  config.parallel.tp = 4;
  EXPECT_TRUE(resolve_job(config, machine).strategy.tp_sequence);
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
  config.parallel.zero = 4;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: zero = 3"));
  config = tiny();
  config.data.sequence_length = 2000;
  EXPECT_THAT(refusal(config, 1), HasSubstr("1024 positions"));
  EXPECT_EQ(refusal(tiny(), 4), "accepted");
}

struct Refused {
  std::string why;
  int ranks;
  std::function<void(RunConfig&)> set;
  std::vector<std::string> parts;  // of the message: what was asked, what would work
};

std::vector<Refused> refused_layouts() {
  using C = RunConfig&;
  return {
      {"tp zero", 4, [](C c) { c.parallel.tp = 0; }, {"parallel.tp = 0", "from 1"}},
      {"sp negative", 4, [](C c) { c.parallel.sp = -2; }, {"parallel.sp = -2", "from 1"}},
      {"dp zero", 4, [](C c) { c.parallel.dp = 0; }, {"parallel.dp = 0", "from 1"}},
      {"tp huge", 4, [](C c) { c.parallel.tp = 1 << 21; }, {"parallel.tp = 2097152", "to 1048576"}},
      {"a product beyond an int",
       4,
       [](C c) { c.parallel.tp = c.parallel.sp = 1 << 16; },
       {"sp 65536 x tp 65536 = 4294967296", "--ranks=4294967296"}},
      {"the same with dp",
       4,
       [](C c) { c.parallel.dp = c.parallel.tp = c.parallel.sp = 1 << 16; },
       {"makes 281474976710656 ranks, but there are 4"}},
      {"no multiple of tp", 4, [](C c) { c.parallel.tp = 3; }, {"tp 3 = 3", "--ranks=6"}},
      {"no multiple of sp", 4, [](C c) { c.parallel.sp = 3; }, {"sp 3", "--ranks=6"}},
      {"no multiple of both",
       4,
       [](C c) { c.parallel.sp = c.parallel.tp = 3; },
       {"sp 3 x tp 3 = 9", "--ranks=9"}},
      {"more than the ranks", 2, [](C c) { c.parallel.tp = 4; }, {"tp 4", "--ranks=4"}},
      {"dp too small",
       8,
       [](C c) { c.parallel.dp = 2, c.parallel.tp = 2; },
       {"parallel.dp = 2", "parallel.dp = 4 or --ranks=4"}},
      {"dp that fits nothing",
       6,
       [](C c) { c.parallel.dp = 2, c.parallel.tp = 4; },
       {"makes 8 ranks, but there are 6", "--ranks=8"}},
      {"pipeline", 4, [](C c) { c.parallel.pp = 2; }, {"parallel.pp = 2", "dp = 4, pp = 1"}},
      {"experts", 4, [](C c) { c.parallel.ep = 2; }, {"parallel.ep = 2", "dp = 4, ep = 1"}},
      {"more of tp than heads",
       8,
       [](C c) { c.parallel.tp = 8; },
       {"parallel.tp = 8", "4 heads", "tp = 4, dp = 2"}},
      {"the same beside sp",
       16,
       [](C c) { c.parallel.tp = 8, c.parallel.sp = 2; },
       {"parallel.tp = 8", "tp = 4, dp = 2"}},
      {"the same, and Ulysses",
       16,
       [](C c) { c.parallel.tp = 8, c.parallel.sp = 2, c.parallel.sp_mode = "ulysses"; },
       {"parallel.tp = 8", "tp = 4, dp = 2, sp_mode = \"ring\""}},
      {"more of Ulysses than heads",
       8,
       [](C c) { c.parallel.sp = 8, c.parallel.sp_mode = "ulysses"; },
       {"parallel.sp = 8", "4 heads", "parallel.sp_mode = \"ring\""}},
      {"the same within tp",
       8,
       [](C c) { c.parallel.tp = 2, c.parallel.sp = 4, c.parallel.sp_mode = "ulysses"; },
       {"2 heads", "parallel.sp_mode = \"ring\""}},
      {"no square",
       6,
       [](C c) { c.parallel.tp = 6, c.parallel.tp_mode = "2d"; },
       {"parallel.tp = 6", "a square of ranks", "tp_mode = \"1d\"", "tp = 4"}},
      {"no cube",
       16,
       [](C c) { c.parallel.tp = 16, c.parallel.tp_mode = "3d"; },
       {"parallel.tp = 16", "a cube of ranks", "tp_mode = \"1d\"", "tp = 8"}},
      {"no squares of that depth",
       8,
       [](C c) { c.parallel.tp = 8, c.parallel.tp_mode = "2.5d", c.parallel.tp_depth = 3; },
       {"parallel.tp = 8", "tp_depth = 3", "tp_mode = \"1d\"", "tp = 12 (tp_depth = 3)"}},
      {"depth of 2d",
       8,
       [](C c) { c.parallel.tp = 8, c.parallel.tp_mode = "2d", c.parallel.tp_depth = 2; },
       {"parallel.tp_depth = 2", "tp_mode = \"2.5d\""}},
      {"depth 0",
       4,
       [](C c) { c.parallel.tp = 4, c.parallel.tp_mode = "2.5d", c.parallel.tp_depth = 0; },
       {"parallel.tp_depth = 0", "from 1"}},
      {"tokens shared in 2d",
       4,
       [](C c) { c.parallel.tp = 4, c.parallel.tp_mode = "2d", c.parallel.tp_sequence = true; },
       {"parallel.tp_sequence = true", "leave tp_sequence out", "tp_mode = \"1d\""}},
      {"more columns than heads",
       64,
       [](C c) { c.parallel.tp = 64, c.parallel.tp_mode = "2d"; },
       {"parallel.tp = 64", "4 heads", "8 columns", "tp = 16, dp = 4"}},
      {"Ulysses of more than a column's heads",
       16,
       [](C c) {
         c.parallel.tp = 4, c.parallel.tp_mode = "2d";
         c.parallel.sp = 4, c.parallel.sp_mode = "ulysses";
       },
       {"parallel.sp = 4", "2 heads", "parallel.sp_mode = \"ring\""}},
      {"a sequence shorter than sp",
       8,
       [](C c) { c.parallel.sp = 8, c.data.sequence_length = 7; },
       {"parallel.sp = 8", "7 tokens", "data.sequence_length = 8"}},
      {"positions fewer than sp",
       2048,
       [](C c) { c.parallel.sp = 2048; },
       {"parallel.sp = 2048", "parallel.sp = 256"}},
      {"ZeRO 4", 4, [](C c) { c.parallel.zero = 4; }, {"parallel.zero = 4", "zero = 3"}},
      {"ZeRO -1", 4, [](C c) { c.parallel.zero = -1; }, {"parallel.zero = -1", "zero = 0"}},
      {"NVMe without a folder",
       1,
       [](C c) { c.memory.offload_optimizer = "nvme"; },
       {"memory.nvme_path", "\"host\""}},
      {"a share that is \"auto\"",
       1,
       [](C c) {
         c.memory.offload_optimizer = std::map<std::string, double>{{"auto", 0.5}};
       },
       {"memory.offload_optimizer", "\"auto\"", "host and nvme"}},
      {"a tier that is none",
       1,
       [](C c) {
         c.memory.offload_gradients = std::map<std::string, double>{{"disk", 1}};
       },
       {"memory.offload_gradients", "\"disk\"", "host and nvme"}},
      {"more than all of it",
       1,
       [](C c) {
         c.memory.offload_parameters = std::map<std::string, double>{{"host", 0.75}, {"nvme", 0.5}};
       },
       {"memory.offload_parameters", "host = 0.75, nvme = 0.5", "host = 0.5"}},
      {"more layers computed again than there are",
       1,
       [](C c) { c.memory.recompute = int64_t{5}; },
       {"memory.recompute = 5", "4 layers", "use 0 to 4"}},
      {"a batch for fewer replicas",
       32,
       [](C c) { c.parallel.tp = 2, c.train.global_batch = 8; },
       {"train.global_batch = 8", "dp = 16", "global_batch = 16"}},
      {"no batch", 4, [](C c) { c.train.global_batch = 0; }, {"train.global_batch = 0", "1"}},
      {"no sequence",
       4,
       [](C c) { c.data.sequence_length = 0; },
       {"data.sequence_length = 0", "1 to 1024"}},
  };
}

TEST(ResolveJob, BadLayoutsAreRefusedWithWhatWouldWork) {
  const std::vector<Refused> all = refused_layouts();
  EXPECT_GE(all.size(), 20);
  for (const Refused& refused : all) {
    SCOPED_TRACE(refused.why);
    RunConfig config = tiny();
    refused.set(config);
    const std::string message = refusal(config, refused.ranks);
    for (const std::string& part : refused.parts) EXPECT_THAT(message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace colossal
