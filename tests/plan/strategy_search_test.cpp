#include "colossal/plan/strategy_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/plan/plan.h"
#include "colossal/training/run_summary.h"

namespace colossal::test {
namespace {

using plan::ClusterSpecification;
using plan::StrategyChoice;
using plan::StrategySearch;
using testing::HasSubstr;

RunConfig small_config() {
  RunConfig config;
  config.model.preset = "gpt2-tiny";
  config.model.overrides = {{"n_layer", 4}, {"n_embd", 64}, {"n_head", 4}};
  config.data.sequence_length = 32;
  config.train.global_batch = 8;
  config.precision.compute = "fp32";
  config.parallel.strategy = "auto";
  return config;
}

ClusterSpecification gpus(int64_t per_host) {
  ClusterSpecification cluster;
  cluster.hosts.ranks = per_host;
  cluster.fp32 = {.products = 1e12, .elements = 1e11};
  cluster.device = {.operator_seconds = 1e-6, .half_rate_size = 16};
  cluster.links = {.latency = 1e-6,
                   .bandwidth = 1e10,
                   .network_latency = 1e-5,
                   .network_bandwidth = 1e9,
                   .overlap = 0.5};
  return cluster;
}

Machine machine_with(int ranks, int64_t memory_bytes = 0) {
  return {.ranks = ranks, .local_ranks = ranks, .cores = ranks, .memory_bytes = memory_bytes};
}

StrategySearch search(const RunConfig& config, const std::set<std::string>& keys,
                      const Machine& machine, const ClusterSpecification& cluster) {
  return plan::search_strategies(config, keys, machine, cluster,
                                 [](const Job& job) { return job; });
}

double seconds_of_job(const RunConfig& config, const Machine& machine,
                      const ClusterSpecification& cluster) {
  return make_plan(resolve_job_as_given(config, machine, {}), &cluster).time->seconds;
}

// All layouts of two ranks of one axis, and of two axes of two, with all divisions into
// micro-batches, as a user would give them.
TEST(StrategySearch, FindsTheFastestOfAll) {
  for (const int ranks : {2, 4}) {
    const ClusterSpecification cluster = gpus(ranks);
    const Machine machine = machine_with(ranks);
    const StrategySearch found = search(small_config(), {}, machine, cluster);
    double fastest = INFINITY;
    for (int pp = 1; pp <= ranks; pp *= 2) {
      for (int tp = 1; pp * tp <= ranks; tp *= 2) {
        for (int sp = 1; pp * tp * sp <= ranks; sp *= 2) {
          for (const int micro_batch : {1, 2, 4, 8}) {
            RunConfig config = small_config();
            config.parallel.strategy = "manual";
            config.parallel.pp = pp;
            config.parallel.tp = tp;
            config.parallel.sp = sp;
            config.train.micro_batch = micro_batch;
            fastest = std::min(fastest, seconds_of_job(config, machine, cluster));
          }
        }
      }
    }
    EXPECT_LE(found.choices.front().time.seconds, fastest * (1 + 1e-12)) << ranks;
    EXPECT_TRUE(std::ranges::is_sorted(
        found.choices, {}, [](const StrategyChoice& choice) { return choice.time.seconds; }));
  }
}

// The settings of a choice, given by a user, are the job that was predicted.
TEST(StrategySearch, ItsSettingsGiveTheJob) {
  const ClusterSpecification cluster = gpus(4);
  const Machine machine = machine_with(4);
  const StrategySearch found = search(small_config(), {}, machine, cluster);
  for (const StrategyChoice& choice : found.choices) {
    RunConfig config = small_config();
    ConfigSchema schema;
    describe(schema, config);
    for (const auto& [key, value] : choice.settings) schema.set(key, value);
    config.parallel.strategy = "manual";
    // A plan records more ranks than the search, of which one may take longer.
    const double seconds = seconds_of_job(config, machine, cluster);
    EXPECT_GE(seconds, choice.time.seconds * (1 - 1e-12));
    EXPECT_LE(seconds, choice.time.seconds * 1.05);
    const Job job = resolve_job_as_given(config, machine, {});
    EXPECT_EQ(describe_layout(job), describe_layout(choice.job));
    EXPECT_EQ(job.micro_batch, choice.job.micro_batch);
    EXPECT_EQ(job.recompute, choice.job.recompute);
  }
}

TEST(StrategySearch, IsTheSameEachTime) {
  const ClusterSpecification cluster = gpus(2);
  const StrategySearch first = search(small_config(), {}, machine_with(4), cluster);
  const StrategySearch second = search(small_config(), {}, machine_with(4), cluster);
  ASSERT_EQ(first.choices.size(), second.choices.size());
  for (size_t i = 0; i < first.choices.size(); ++i) {
    EXPECT_EQ(first.choices[i].settings, second.choices[i].settings);
  }
}

TEST(StrategySearch, KeepsTheKeysOfTheUser) {
  RunConfig config = small_config();
  config.parallel.tp = 2;
  config.train.micro_batch = 1;
  const StrategySearch found =
      search(config, {"parallel.tp", "train.micro_batch"}, machine_with(4), gpus(4));
  for (const StrategyChoice& choice : found.choices) {
    EXPECT_EQ(choice.job.strategy.tp, 2);
    EXPECT_EQ(choice.job.micro_batch, 1);
    for (const auto& [key, value] : choice.settings) {
      EXPECT_NE(key, "parallel.tp");
      EXPECT_NE(key, "train.micro_batch");
    }
  }
}

// Ranks that share a tensor send most: with a slow network, none do so over hosts.
TEST(StrategySearch, KeepsTensorParallelismWithinHosts) {
  const StrategySearch found = search(small_config(), {}, machine_with(4), gpus(2));
  for (const StrategyChoice& choice : found.choices) EXPECT_LE(choice.job.strategy.tp, 2);
}

TEST(StrategySearch, TakesALayoutThatFitsTheMemory) {
  const ClusterSpecification cluster = gpus(2);
  RunConfig config = small_config();
  const StrategySearch unlimited = search(config, {}, machine_with(2), cluster);
  int64_t least = unlimited.choices.front().peak_bytes;
  for (const StrategyChoice& choice : unlimited.choices) {
    least = std::min(least, choice.peak_bytes);
  }
  const int64_t budget = least - 1;
  config.memory.device_budget = ByteSize{budget};
  config.memory.host_budget = ByteSize{budget};
  const StrategySearch found = search(config, {}, machine_with(2), cluster);
  EXPECT_GT(found.too_large, 0);
  for (const StrategyChoice& choice : found.choices) EXPECT_LE(choice.peak_bytes, budget);
  EXPECT_GE(found.choices.front().time.seconds, unlimited.choices.front().time.seconds);
}

// What the user leaves to the program is decided for each layout: here, recomputation of one rank.
TEST(StrategySearch, DecidesRecomputationThatIsAuto) {
  RunConfig config = small_config();
  const std::set<std::string> keys{"memory.recompute", "train.micro_batch"};
  config.train.micro_batch = 8;
  const ClusterSpecification cluster = gpus(1);
  const StrategySearch none = search(config, keys, machine_with(1), cluster);
  config.memory.recompute = "auto";
  config.memory.device_budget = ByteSize{none.choices.front().peak_bytes - 1};
  const StrategySearch found = search(config, keys, machine_with(1), cluster);
  EXPECT_LT(found.choices.front().peak_bytes, none.choices.front().peak_bytes);
  EXPECT_GT(found.choices.front().time.seconds, none.choices.front().time.seconds);
}

std::string refusal_of_search(const RunConfig& config, const std::set<std::string>& keys,
                              int ranks) {
  try {
    search(config, keys, machine_with(ranks), gpus(ranks));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(StrategySearch, SaysWhyNothingWorks) {
  RunConfig config = small_config();
  config.memory.device_budget = ByteSize{1000};
  const std::string too_large = refusal_of_search(config, {"memory.device_budget"}, 2);
  EXPECT_THAT(too_large, HasSubstr("fits the memory budgets"));
  EXPECT_THAT(too_large, HasSubstr("exceeds them by"));
  config = small_config();
  config.parallel.tp = 3;
  EXPECT_THAT(refusal_of_search(config, {"parallel.tp"}, 4), HasSubstr("nearest: parallel.tp = 4"));
  config = small_config();
  config.data.sequence_length = 1 << 20;
  EXPECT_THAT(refusal_of_search(config, {"data.sequence_length"}, 2),
              HasSubstr("data.sequence_length"));
}

TEST(StrategySearch, DividesExperts) {
  RunConfig config = small_config();
  config.model.preset = "mixtral-8x7b";
  config.model.overrides = {{"vocab_size", 500},        {"hidden_size", 64},
                            {"intermediate_size", 128}, {"num_hidden_layers", 2},
                            {"num_attention_heads", 4}, {"num_key_value_heads", 4},
                            {"num_local_experts", 4}};
  const StrategySearch found = search(config, {}, machine_with(4), gpus(4));
  EXPECT_TRUE(std::ranges::any_of(
      found.choices, [](const StrategyChoice& choice) { return choice.job.strategy.ep > 1; }));
}

}  // namespace
}  // namespace colossal::test
