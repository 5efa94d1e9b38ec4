#include "colossal/plan/fit_memory.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "tests/plan/layouts.h"

namespace colossal::test {
namespace {

using memory::Recompute;
using testing::HasSubstr;
using testing::Not;

// Layers whose activations are most of its memory.
Job deep_job(int dp = 1, int layers = 4) {
  RunConfig config;
  config.model.preset = "gpt2-tiny";
  config.model.overrides = {{"n_layer", layers}, {"n_embd", 64}, {"n_head", 4}};
  config.data.sequence_length = 128;
  config.train.global_batch = 4 * dp;
  config.precision.compute = "fp32";
  return resolve_job(config, {.ranks = dp, .local_ranks = dp});
}

int64_t need(Job job, const Recompute& recompute) {
  job.recompute = recompute;
  return plan::rank_with_largest_peak(job).memory_peak_bytes();
}

Job automatic(Job job, int64_t budget) {
  job.recompute_undecided = true;
  job.device_budget = budget;
  return job;
}

std::string refusal(const Job& job) {
  try {
    plan::fit_memory(job);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FitMemory, AutoRecomputesTheLeastThatFits) {
  const Job job = deep_job();
  std::vector<Recompute> rising{{}, {.selective = true}};
  for (int64_t n = 1; n < 4; ++n) rising.push_back({.selective = true, .full_blocks = n});
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const Recompute& recompute : rising) {
    const int64_t bytes = need(job, recompute);
    ASSERT_LT(bytes, before) << recompute.full_blocks;
    before = bytes;
  }
  for (const size_t wanted : {0, 1, 2, 4}) {
    const int64_t bytes = need(job, rising[wanted]);
    EXPECT_EQ(plan::fit_memory(automatic(job, bytes)).recompute, rising[wanted]) << wanted;
  }
  const Job found = plan::fit_memory(automatic(job, need(job, rising[3]) + 1));
  EXPECT_THAT(found.recompute_reason, HasSubstr("is selective and 2 of 4 layers: "));
  EXPECT_THAT(found.recompute_reason, HasSubstr("% more FLOPs"));
}

TEST(FitMemory, AutoIsRefusedWhereNothingFitsOrNothingIsKnown) {
  Job job = automatic(deep_job(), 100'000);
  job.host_budget = 1;
  const std::string text = refusal(job);
  for (const char* words : {"memory.device_budget = 100000B", "all layers computed again",
                            "Even with train.micro_batch = 1", "use more ranks"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  EXPECT_THAT(refusal(automatic(deep_job(), 0)),
              HasSubstr("set that to what a rank of the machine that will train has"));
}

TEST(FitMemory, ABudgetThatSufficesChangesNothing) {
  Job job = deep_job(2);
  job.device_budget = need(job, {});
  EXPECT_EQ(plan::fit_memory(job).recompute, Recompute{});
  EXPECT_EQ(refusal(job), "");
  --job.device_budget;
  EXPECT_THAT(refusal(job), HasSubstr("1 B too many"));
}

TEST(FitMemory, NamesBlocksOfATableThatIsMostOfIt) {
  RunConfig config = deep_job(1, 1).config;
  config.model.overrides["vocab_size"] = 400'000;  // of 64 numbers each: 98 MiB
  config.train.global_batch = 1;
  Job job = resolve_job(config, {.ranks = 1, .local_ranks = 1});
  const int64_t whole = need(job, {});
  job.device_budget = whole - 1;
  EXPECT_THAT(refusal(job), HasSubstr("\n  memory.table_rows = 65536: "));
  job.strategy.table_rows = 65'536;
  EXPECT_LT(need(job, {}), whole);
  EXPECT_THAT(refusal(deep_job()), Not(HasSubstr("table_rows")));
}

TEST(FitMemory, NamesWhatFitsWithTheFewestChanges) {
  Job job = deep_job(2);
  job.device_budget = need(job, {.selective = true});
  std::string text = refusal(job);
  for (const char* words :
       {"(this host's memory / local ranks, less the process itself)", "are activations",
        "\n  memory.recompute = \"selective\": ", "as many FLOPs",
        "\n  memory.recompute = \"full\": ", "% more FLOPs", "\n  train.micro_batch = 2: "}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  // One change is enough, of the largest micro-batch that fits.
  EXPECT_THAT(text, Not(HasSubstr("micro_batch = 1")));
  EXPECT_THAT(text, Not(HasSubstr(", parallel")));

  EXPECT_LT(text.find("selective"), text.find("micro_batch"));
}

TEST(FitMemory, ChangesAsManySettingsAsItTakes) {
  Job job = deep_job(2, 2);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int zero : {1, 2, 3}) {
    for (const int64_t micro_batch : {4, 2, 1}) {
      Job changed = job;
      changed.strategy.zero = zero;
      changed.micro_batch = micro_batch;
      for (const Recompute& recompute :
           {Recompute{}, {.selective = true}, {.full_blocks = Recompute::kAllBlocks}}) {
        least = std::min(least, need(changed, recompute));
      }
    }
  }
  job.device_budget = least;
  job.host_budget = 1;  // so that nothing fits there
  std::string text = refusal(job);
  EXPECT_THAT(text, HasSubstr("\n  memory.recompute = \"full\", "));
  EXPECT_THAT(text, HasSubstr("train.micro_batch = 1: "));
  job.device_budget = least - 1;
  text = refusal(job);
  EXPECT_THAT(text, HasSubstr("Even with memory.recompute = \"full\", "));
  EXPECT_THAT(text, HasSubstr("train.micro_batch = 1 they take"));
}

TEST(FitMemory, TheFullestRankIsFoundByRecordingFew) {
  const int threads = at::get_num_threads();
  for (const PlannedRun& layout : std::vector<PlannedRun>{
           {.dp = 3, .tp = 2, .zero = 1},
           {.family = "llama", .dp = 2, .sp = 2, .zero = 3},
           {.dp = 2, .sp = 2, .sp_mode = "ulysses", .zero = 2},
           {.family = "llama", .dp = 2, .tp = 2, .zero = 1, .num_micro_batches = 4}}) {
    const Job job = job_of(layout);
    at::set_num_threads(job.threads);  // each has scratch of its own
    int64_t most = 0;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      most = std::max(most, plan_of(plan::record_step(job, rank), rank).memory_peak_bytes());
    }
    EXPECT_EQ(plan::rank_with_largest_peak(job).memory_peak_bytes(), most) << layout;
  }
  at::set_num_threads(threads);
}

using memory::MemoryKind;
using memory::Tier;

// Several chunks, most of whose memory is the optimizer's.
Job wide_job() {
  RunConfig config;
  config.model.preset = "gpt2-124m";
  config.model.overrides = {{"n_layer", 3}, {"vocab_size", 500}};
  config.data.sequence_length = 64;
  config.train.global_batch = 8;
  config.precision.compute = "bf16";
  return resolve_job(config, {});
}

Job automatic_tiers(Job job, int64_t device_budget, int64_t host_budget = 0) {
  job.undecided_tiers = {MemoryKind::optimizer, MemoryKind::gradients, MemoryKind::parameters,
                         MemoryKind::activations};
  job.device_budget = device_budget;
  job.host_budget = host_budget;
  return job;
}

int64_t off_device(const plan::RankPlan& plan) {
  return plan.bytes_at_rest(Tier::host) + plan.bytes_at_rest(Tier::nvme);
}

TEST(FitMemory, AutoMovesNothingWhereAllFits) {
  const Job job = deep_job();
  const Job found = plan::fit_memory(automatic_tiers(job, need(job, {})));
  EXPECT_FALSE(found.tiers.uses(Tier::host) || found.tiers.uses(Tier::nvme));
  EXPECT_THAT(found.tiers_reason, HasSubstr("memory.offload_optimizer = \"auto\" is \"none\""));
}

// Of a larger budget never more than of a smaller one; the optimizer's state first.
TEST(FitMemory, AutoMovesNoMoreThanItMust) {
  const Job job = wide_job();
  const int64_t whole = need(job, {});
  int64_t moved_before = 0;
  int moved_in_part = 0;
  for (const double part : {0.9, 0.6, 0.35}) {
    const auto budget = static_cast<int64_t>(part * static_cast<double>(whole));
    const Job found = plan::fit_memory(automatic_tiers(job, budget));
    const plan::RankPlan plan = plan::rank_with_largest_peak(found);
    EXPECT_LE(plan.memory_peak_bytes(), budget) << part;
    EXPECT_GT(off_device(plan), moved_before) << part;
    moved_before = off_device(plan);
    EXPECT_GT(found.tiers.optimizer.host, 0) << part;
    for (const MemoryKind kind : memory::kTieredKinds) {
      const double share = found.tiers.of(kind).host;
      if (share == 0 || share == 1) continue;
      Job less = found;
      less.tiers.of(kind).host = share - 1.0 / 256;
      EXPECT_GT(plan::rank_with_largest_peak(less).memory_peak_bytes(), budget) << part;
      ++moved_in_part;
    }
  }
  EXPECT_GE(moved_in_part, 2);
}

TEST(FitMemory, WhatTheHostHasNoRoomForGoesToNvme) {
  Job job = wide_job();
  const auto budget = static_cast<int64_t>(0.35 * static_cast<double>(need(job, {})));
  const plan::RankPlan on_host =
      plan::rank_with_largest_peak(plan::fit_memory(automatic_tiers(job, budget)));
  const int64_t host_budget = on_host.bytes_at_rest(Tier::host) / 2;
  std::string text = refusal(automatic_tiers(job, budget, host_budget));
  for (const char* words : {"memory.host_budget = ", "too many", "with memory.nvme_path"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  job.tiers.nvme_path = "/nvme";
  const Job found = plan::fit_memory(automatic_tiers(job, budget, host_budget));
  const plan::RankPlan plan = plan::rank_with_largest_peak(found);
  EXPECT_LE(plan.bytes_at_rest(Tier::host), host_budget);
  EXPECT_GT(plan.bytes_at_rest(Tier::host), 0);
  EXPECT_EQ(off_device(plan), off_device(on_host));
  EXPECT_EQ(plan.memory_peak_bytes(), on_host.memory_peak_bytes());
  EXPECT_THAT(found.tiers_reason, HasSubstr("on NVMe"));
}

// On a CPU, with no budget given for the host, both pools are the same memory.
TEST(FitMemory, DeviceAndHostShareTheMemoryOfAHost) {
  Job job = wide_job();
  const int64_t whole = need(job, {});
  job.memory_budget = whole - 1;
  EXPECT_THAT(refusal(automatic_tiers(job, whole - 1)),
              HasSubstr("its share of this host's memory is "));
  job.tiers.nvme_path = "/nvme";
  const plan::RankPlan plan =
      plan::rank_with_largest_peak(plan::fit_memory(automatic_tiers(job, whole - 1)));
  EXPECT_LE(plan.memory_peak_bytes() + plan.bytes_at_rest(Tier::host), job.memory_budget);
  EXPECT_GT(plan.bytes_at_rest(Tier::nvme), 0);
}

// What costs nothing on the way first, layers computed again last.
TEST(FitMemory, AutoRecomputesSelectivelyThenMovesThenRecomputesLayers) {
  Job job = deep_job();
  const int64_t selective = need(job, {.selective = true});
  const auto found_with = [&](int64_t budget) {
    Job open = automatic(job, budget);
    open.undecided_tiers = {MemoryKind::optimizer};
    return plan::fit_memory(open);
  };
  Job found = found_with(selective);
  EXPECT_EQ(found.recompute, (Recompute{.selective = true}));
  EXPECT_TRUE(found.tiers.optimizer.all_on_device());
  found = found_with(selective - 1);
  EXPECT_EQ(found.recompute, (Recompute{.selective = true}));
  EXPECT_GT(found.tiers.optimizer.host, 0);
  job.tiers.optimizer.host = 1;
  const int64_t moved = need(job, {.selective = true});
  job.tiers.optimizer.host = 0;
  found = found_with(moved - 1);
  EXPECT_EQ(found.recompute.full_blocks, 1);
  EXPECT_THAT(found.recompute_reason, HasSubstr("is selective and 1 of 4 layers"));
}

TEST(FitMemory, NamesWhatFitsOffTheDevice) {
  Job job = wide_job();
  job.device_budget = need(job, {}) / 2;
  std::string text = refusal(job);
  EXPECT_THAT(text, HasSubstr("\n  memory.offload_optimizer = \"host\": "));
  EXPECT_THAT(text, HasSubstr("to and from the host a step"));
  EXPECT_THAT(text, Not(HasSubstr("nvme\"")));
  job.host_budget = 1 << 20;
  job.tiers.nvme_path = "/nvme";
  text = refusal(job);
  EXPECT_THAT(text, HasSubstr("\n  memory.offload_optimizer = \"nvme\": "));
  EXPECT_THAT(text, Not(HasSubstr("host\"")));
}

TEST(FitMemory, ComparesSettingsOfRecompute) {
  Job job = deep_job();
  job.recompute = {.full_blocks = 3};
  const std::vector<plan::RecomputeCost> costs =
      plan::compare_recompute(job, plan::rank_with_largest_peak(job));
  std::vector<std::string> names;
  for (const plan::RecomputeCost& cost : costs) names.push_back(cost.name);
  EXPECT_THAT(names, testing::ElementsAre("none", "selective", "3 of 4 layers", "full"));
  EXPECT_LT(costs[3].plan.memory_peak_bytes(), costs[0].plan.memory_peak_bytes());
  EXPECT_GT(costs[3].plan.flops, 1.2 * costs[0].plan.flops);
  EXPECT_EQ(costs[1].plan.flops, costs[0].plan.flops);
}

}  // namespace
}  // namespace colossal::test
