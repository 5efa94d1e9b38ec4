#include "colossal/plan/step_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "tests/plan/layouts.h"

namespace colossal::test {
namespace {

using parallel::pipeline::ActionKind;
using plan::ClusterSpecification;
using plan::OperatorKind;
using plan::RankSeconds;
using plan::RecordedStep;

// GPUs with round rates.
ClusterSpecification round_rates() {
  ClusterSpecification cluster;
  cluster.fp32 = {.products = 1e6, .attention = 5e5, .attention_backward = 2e5, .elements = 1e3};
  cluster.bf16 = {.products = 2e6, .elements = 2e3};
  cluster.device = {.operator_seconds = 0, .half_rate_size = 0, .logits = 100};
  cluster.links.latency = 0;
  cluster.links.bandwidth = 1e3;
  return cluster;
}

plan::Operator product(double flops, int64_t narrowest = 1, at::ScalarType type = at::kFloat) {
  plan::Operator made;
  made.name = "aten::mm";
  made.work = {.kind = OperatorKind::product, .flops = flops, .narrowest = narrowest};
  made.type = type;
  made.bytes = 4;
  return made;
}

plan::Operator elements(int64_t bytes) {
  plan::Operator made;
  made.type = at::kFloat;
  made.bytes = bytes;
  return made;
}

// One action, of all that is recorded.
RecordedStep one_action(plan::Recording recording) {
  RecordedStep step;
  step.actions.push_back({.action = {},
                          .operators = std::ssize(recording.operators),
                          .collectives = std::ssize(recording.collectives)});
  step.recording = std::move(recording);
  return step;
}

Job job_on(int ranks) {
  PlannedRun layout;
  layout.dp = ranks;
  return job_of(layout);
}

plan::TimeShares times(const plan::Recording& recording, const ClusterSpecification& cluster,
                       int ranks = 1, int rank = 0) {
  return seconds_of(one_action(recording), job_on(ranks), rank, cluster).total();
}

TEST(StepTime, OfOperators) {
  plan::Recording recording;
  recording.operators = {product(3e6), product(4e6, 1, at::kBFloat16), elements(500)};
  plan::Operator attention = product(1e6);
  attention.work.kind = OperatorKind::attention;
  recording.operators.push_back(attention);
  attention.work.kind = OperatorKind::attention_backward;
  recording.operators.push_back(attention);
  plan::Operator loss = product(1e6);
  loss.work.logits = 50;
  recording.operators.push_back(loss);
  recording.operators.push_back(elements(0));  // a view
  ClusterSpecification cluster = round_rates();
  const plan::TimeShares shares = times(recording, cluster);
  EXPECT_DOUBLE_EQ(shares.products, 3 + 2 + 1 + 0.5);
  EXPECT_DOUBLE_EQ(shares.attention, 2 + 5);
  EXPECT_DOUBLE_EQ(shares.other_operators, 0.5);
  EXPECT_DOUBLE_EQ(shares.total(), 14);
  cluster.device.operator_seconds = 1;  // of all but the view
  EXPECT_DOUBLE_EQ(times(recording, cluster).total(), 14 + 6);
}

TEST(StepTime, SmallProductsHaveALowerRate) {
  plan::Recording recording;
  recording.operators = {product(1e6, 30)};
  ClusterSpecification cluster = round_rates();
  cluster.device.half_rate_size = 30;
  EXPECT_DOUBLE_EQ(times(recording, cluster).total(), 2);
  cluster.device.half_rate_size = 90;
  EXPECT_DOUBLE_EQ(times(recording, cluster).total(), 4);
}

// Two calls of 2 s on one axis, and a product of 3 s between the second call and its wait.
plan::Recording with_calls(bool asynchronous) {
  plan::Recording recording;
  recording.rank_lists = {{0, 1}};
  const plan::Collective call{.operation = comm::Operation::all_reduce,
                              .axis = "dp",
                              .law_bytes = 2000,
                              .operators = 0,
                              .asynchronous = asynchronous};
  recording.collectives = {call, call};
  recording.operators = {product(3e6)};
  if (asynchronous) recording.waits = {{0, 1, 2}, {1, 1, 2}};
  return recording;
}

TEST(StepTime, CallsAreHiddenAsFarAsTheyOverlap) {
  ClusterSpecification cluster = round_rates();
  EXPECT_DOUBLE_EQ(times(with_calls(false), cluster, 2).total(), 2 + 2 + 3);
  cluster.links.overlap = 1;
  const plan::TimeShares hidden = times(with_calls(true), cluster, 2);
  EXPECT_DOUBLE_EQ(hidden.communication.at("dp"), 1);
  EXPECT_DOUBLE_EQ(hidden.total(), 2 + 2);
  cluster.links.overlap = 0;
  EXPECT_DOUBLE_EQ(times(with_calls(true), cluster, 2).total(), 2 + 2 + 3);
  cluster.links.overlap = 0.5;  // 1 s of each call at once, 1 s beside the product
  EXPECT_DOUBLE_EQ(times(with_calls(true), cluster, 2).total(), 1 + 1 + 3);
}

TEST(StepTime, CallsBetweenHostsShareTheNetwork) {
  plan::Recording recording;
  recording.rank_lists = {{0, 2}, {0, 1, 2, 3}};
  plan::Collective call{
      .operation = comm::Operation::all_gather, .axis = "dp", .ranks = 0, .law_bytes = 1000};
  recording.collectives = {call};
  ClusterSpecification cluster = round_rates();
  cluster.hosts.ranks = 2;
  cluster.links.network_latency = 0.25;
  cluster.links.network_bandwidth = 500;
  // Two groups of a host send at the same time.
  EXPECT_DOUBLE_EQ(times(recording, cluster, 4).total(), 4 + 0.25);
  // One group of all ranks leaves each host once.
  recording.collectives[0].ranks = 1;
  EXPECT_DOUBLE_EQ(times(recording, cluster, 4).total(), 2 + 2 * 0.25);
  // Of an all-to-all, two thirds leave the host, from both ranks.
  recording.collectives[0].operation = comm::Operation::all_to_all;
  EXPECT_DOUBLE_EQ(times(recording, cluster, 4).total(), 2 * 2 * 2 / 3.0 + 2 * 0.25);
  // Within a host, only the host's links count.
  cluster.hosts.ranks = 4;
  EXPECT_DOUBLE_EQ(times(recording, cluster, 4).total(), 1);
}

TEST(StepTime, MoreThreadsThanCoresShareThem) {
  Job job = job_on(4);
  job.threads = 2;
  plan::Recording recording;
  recording.operators = {product(4e6)};
  ClusterSpecification cluster = round_rates();
  const auto seconds = [&] {
    return seconds_of(one_action(recording), job, 0, cluster).total().total();
  };
  EXPECT_DOUBLE_EQ(seconds(), 4);  // a GPU for each rank
  cluster.hosts.cores = 8;
  EXPECT_DOUBLE_EQ(seconds(), 2);
  cluster.hosts.cores = 2;
  EXPECT_DOUBLE_EQ(seconds(), 8);
}

TEST(StepTime, ActionsThatStandForSeveralCountAsOften) {
  RecordedStep step;
  step.middle = 1;
  step.middle_repeats = 5;
  for (int64_t i = 0; i < 3; ++i) {
    step.recording.operators.push_back(product(1e6));
    step.actions.push_back({.action = {.micro_batch = static_cast<int>(i)}, .operators = i + 1});
  }
  step.recording.operators.push_back(elements(250));
  step.update_bytes = 500;
  const RankSeconds seconds = seconds_of(step, job_on(1), 0, round_rates());
  EXPECT_DOUBLE_EQ(seconds.total().products, 7);
  EXPECT_DOUBLE_EQ(seconds.rest.total(), 0.25 + 0.5);
}

TEST(StepTime, NamesARateThatIsMissing) {
  const auto refusal = [](const plan::Recording& recording, ClusterSpecification cluster) {
    try {
      times(recording, cluster, 2);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  plan::Recording products;
  products.operators = {product(1)};
  ClusterSpecification cluster = round_rates();
  cluster.fp32.products.reset();
  EXPECT_THAT(refusal(products, cluster), testing::HasSubstr("fp32.products"));
  cluster = round_rates();
  cluster.links.bandwidth.reset();
  EXPECT_THAT(refusal(with_calls(false), cluster), testing::HasSubstr("links.bandwidth"));
  cluster = round_rates();
  cluster.hosts.ranks = 1;
  EXPECT_THAT(refusal(with_calls(false), cluster), testing::HasSubstr("links.network_bandwidth"));
}

// Stages with equal times: a step of 1F1B takes (m + p - 1) times those of a micro-batch.
TEST(StepTime, OfAPipelineIsThatOfItsSchedule) {
  PlannedRun layout;
  layout.pp = 2;
  layout.num_micro_batches = 6;
  const Job job = job_of(layout);
  std::vector<RankSeconds> ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].rest.update = 0.5;
    for (const auto& [kind, seconds] :
         {std::pair{ActionKind::forward, 1.0}, {ActionKind::backward, 2.0}}) {
      RankSeconds::OfAction& made = ranks[rank].actions.emplace_back();
      made.action = {.kind = kind, .stage = rank};
      made.times = 6;
      made.seconds.products = seconds;
    }
  }
  const plan::StepTime time = step_time(ranks, job, round_rates());
  EXPECT_DOUBLE_EQ(time.seconds, (6 + 2 - 1) * 3 + 0.5);
  EXPECT_DOUBLE_EQ(time.pipeline_wait, 3);
  // On one core, whichever rank does not wait has it: the step takes as long as the ranks' work.
  ClusterSpecification crowded = round_rates();
  crowded.hosts.cores = 1;
  const plan::StepTime shared = step_time(ranks, job, crowded);
  EXPECT_DOUBLE_EQ(shared.seconds, 6 * 3 + 0.5);
  EXPECT_NEAR(shared.pipeline_wait, 18 - 18 * 6.0 / 7, 1e-12);
}

// Forward passes of 1 s and backward passes of 2 s: two towers with several micro-batches compute
// the forward passes twice.
TEST(StepTime, OfTwoTowersHasAFirstPassOverSeveralMicroBatches) {
  const auto seconds_with = [](int pp, int64_t micro_batches) {
    PlannedRun layout{.family = "clip"};
    layout.pp = pp;
    layout.num_micro_batches = micro_batches;
    std::vector<RankSeconds> ranks(pp);
    for (int rank = 0; rank < pp; ++rank) {
      ranks[rank].rank = rank;
      for (const auto& [kind, seconds] :
           {std::pair{ActionKind::forward, 1.0}, {ActionKind::backward, 2.0}}) {
        RankSeconds::OfAction& made = ranks[rank].actions.emplace_back();
        made.action = {.kind = kind, .stage = rank};
        made.times = micro_batches;
        made.seconds.products = seconds;
      }
    }
    return step_time(ranks, job_of(layout), round_rates()).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds_with(1, 1), 3);
  EXPECT_DOUBLE_EQ(seconds_with(1, 6), 6 * 3 + 6);
  EXPECT_DOUBLE_EQ(seconds_with(2, 6), (6 + 2 - 1) * 3 + 6 + 1);
}

// Every asynchronous call of a dry run is waited for after it was made, and reductions of
// gradients not before the backward pass has ended.
TEST(StepTime, DryRunsRecordTheWaits) {
  PlannedRun layout;
  layout.dp = 2;
  layout.zero = 3;
  layout.hidden = 1024;
  const plan::Recording recording = plan::record_step(job_of(layout), 0).recording;
  std::vector<int> waits(recording.collectives.size());
  for (const plan::Wait& wait : recording.waits) {
    const plan::Collective& call = recording.collectives[wait.collective];
    EXPECT_TRUE(call.asynchronous);
    EXPECT_GE(wait.operators, call.operators);
    EXPECT_GT(wait.collectives, static_cast<int64_t>(wait.collective));
    ++waits[wait.collective];
  }
  int gathers = 0;
  for (size_t i = 0; i < waits.size(); ++i) {
    const plan::Collective& call = recording.collectives[i];
    EXPECT_LE(waits[i], 1);
    if (call.reason != comm::Reason::parameter || !call.asynchronous) continue;
    EXPECT_EQ(waits[i], 1) << i;
    ++gathers;
  }
  EXPECT_GT(gathers, 4);
}

// A faster link never makes a step slower, and hides nothing that must be waited for.
TEST(StepTime, OfWholeStepsFallsWithTheRates) {
  for (const int zero : {1, 3}) {
    PlannedRun layout;
    layout.dp = 2;
    layout.tp = 2;
    layout.zero = zero;
    layout.num_micro_batches = 2;
    const Job job = job_of(layout);
    const RecordedStep step = plan::record_step(job, 0);
    ClusterSpecification cluster = round_rates();
    double before = INFINITY;
    for (const double bandwidth : {1e3, 1e4, 1e12}) {
      cluster.links.bandwidth = bandwidth;
      const double seconds = seconds_of(step, job, 0, cluster).total().total();
      EXPECT_LT(seconds, before);
      before = seconds;
    }
    cluster.links.bandwidth = 1e3;
    const double in_turn = seconds_of(step, job, 0, cluster).total().total();
    cluster.links.overlap = 1;
    EXPECT_LT(seconds_of(step, job, 0, cluster).total().total(), in_turn);
  }
}

}  // namespace
}  // namespace colossal::test
