#include "colossal/plan/estimated_rank.h"

#include <gtest/gtest.h>

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::test {
namespace {

using plan::RankPlan;

plan::ClusterSpecification some_rates() {
  plan::ClusterSpecification cluster;
  cluster.fp32 = {.products = 1e11, .elements = 1e10};
  cluster.device = {.operator_seconds = 1e-6, .half_rate_size = 8};
  cluster.links.latency = 1e-6;
  cluster.links.bandwidth = 1e9;
  return cluster;
}

struct Case {
  int pp = 1, dp = 1, tp = 1, zero = 0, chunks = 1;
  const char* schedule = "1f1b";
  const char* recompute = "none";
};

Job job_with_26_blocks(const Case& layout) {
  RunConfig config;
  config.model.preset = "llama-tiny";
  config.model.overrides = {{"num_hidden_layers", 26},  {"hidden_size", 64},
                            {"num_attention_heads", 4}, {"num_key_value_heads", 4},
                            {"intermediate_size", 128}, {"vocab_size", 512}};
  config.data.sequence_length = 32;
  config.train.global_batch = 16;
  config.train.micro_batch = 2;
  config.precision.compute = "fp32";
  config.memory.recompute = layout.recompute;
  config.parallel.pp = layout.pp;
  config.parallel.dp = layout.dp;
  config.parallel.tp = layout.tp;
  config.parallel.zero = layout.zero;
  if (layout.pp > 1) {
    config.parallel.pp_schedule = layout.schedule;
    config.parallel.pp_chunks = layout.chunks;
  }
  const int ranks = layout.pp * layout.dp * layout.tp;
  return resolve_job(config, {.ranks = ranks, .local_ranks = ranks});
}

double off_by(double estimated, double recorded) {
  return estimated / recorded - 1;
}

TEST(EstimatedRank, IsCloseToARecordedOne) {
  const plan::ClusterSpecification cluster = some_rates();
  for (const Case& layout : {Case{}, Case{.dp = 2, .zero = 1}, Case{.dp = 2, .zero = 3},
                             Case{.tp = 2}, Case{.recompute = "full"}, Case{.pp = 2},
                             Case{.pp = 2, .dp = 2, .zero = 2, .schedule = "zb-h1"},
                             Case{.pp = 2, .chunks = 2, .schedule = "interleaved"}}) {
    const Job job = job_with_26_blocks(layout);
    const int apart = job.strategy.world_size() / layout.pp;
    for (int rank = 0; rank < job.strategy.world_size(); rank += apart) {
      const RankPlan estimated = estimated_ranks(job, {rank}, cluster).front();
      const RankPlan recorded = recorded_rank(job, rank, &cluster);
      const std::string name =
          fmt::format("pp {} dp {} tp {} zero {} {}, rank {}", layout.pp, layout.dp, layout.tp,
                      layout.zero, layout.schedule, rank);
      EXPECT_NEAR(off_by(estimated.seconds->total().total(), recorded.seconds->total().total()), 0,
                  0.01)
          << name;
      EXPECT_NEAR(off_by(static_cast<double>(estimated.memory_peak_bytes()),
                         static_cast<double>(recorded.memory_peak_bytes())),
                  0, 0.03)
          << name;
      if (job.strategy.world_size() == 1) continue;
      EXPECT_NEAR(off_by(static_cast<double>(estimated.bytes_sent()),
                         static_cast<double>(recorded.bytes_sent())),
                  0, 0.02)
          << name;
    }
  }
}

// What an estimate leaves out is set only by a dry run of the whole model.
TEST(EstimatedRank, RecordsModelsWithDifferentBlocks) {
  Job job = job_with_26_blocks({});
  EXPECT_EQ(estimated_ranks(job, {0}, some_rates()).front().flops, 0);
  job.model.transformer.attention.resize(26, job.model.transformer.attention.front());
  EXPECT_GT(estimated_ranks(job, {0}, some_rates()).front().flops, 0);
  job = job_with_26_blocks({});
  job.recompute.full_blocks = 3;
  EXPECT_GT(estimated_ranks(job, {0}, some_rates()).front().flops, 0);
}

}  // namespace
}  // namespace colossal::test
