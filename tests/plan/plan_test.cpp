#include "colossal/plan/plan.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>

#include "colossal/mesh/rank_grid.h"
#include "colossal/plan/plan_text.h"
#include "tests/plan/layouts.h"

namespace colossal::test {
namespace {

using plan::Plan;
using plan::RankPlan;

// Along some axes, the ranks other than `rank` that differ from it there only.
std::set<int> others_along(const Strategy& strategy, int rank,
                           const std::vector<std::string_view>& axes) {
  std::set<int> others;
  const RankGrid mesh(strategy);
  for (const int other : mesh.ranks_along(rank, mesh.axes_of(axes))) {
    if (other != rank) others.insert(other);
  }
  return others;
}

// Ulysses, and whole tokens on each rank of tp, so that each axis has partners of its own only.
TEST(Plan, CountsPartnersOfAThousandRanks) {
  const Job job =
      job_of({.dp = 250, .sp = 2, .tp = 2, .sp_mode = "ulysses", .tp_sequence = false, .zero = 1});
  ASSERT_EQ(job.strategy.world_size(), 1000);
  for (const int rank : {0, 499, 998, 999}) {
    const RankPlan plan = plan_of(plan::record_step(job, rank), rank);
    EXPECT_EQ(plan.partners.at("dp+sp"), 499);
    EXPECT_EQ(plan.partners.at("sp"), 1);
    EXPECT_EQ(plan.partners.at("tp"), 1);
    std::set<int> training = others_along(job.strategy, rank, {"dp", "sp"});
    training.merge(others_along(job.strategy, rank, {"tp"}));
    EXPECT_EQ(plan.training_partners, 500);
    EXPECT_EQ(plan.training_partners, std::ssize(training));
    EXPECT_EQ(plan.all_partners, 999);  // control reaches all
  }
}

// The papers' claim for cubes: a rank of a thousand talks to a few of them, not to 999.
TEST(Plan, ARankOfACubeTalksToFewOfAThousand) {
  RunConfig config;
  config.model.preset = "gpt2-124m";
  config.model.overrides = {{"n_layer", 2}};
  config.data.sequence_length = 16;
  config.train.global_batch = 100;
  const auto partners = [&](const std::string& mode, int tp, int ranks) {
    config.parallel.tp_mode = mode;
    config.parallel.tp = tp;
    const Job job = resolve_job(config, {.ranks = ranks});
    const RankPlan plan = plan_of(plan::record_step(job, 23), 23);
    EXPECT_EQ(plan.all_partners, ranks - 1);  // control, once a step
    return plan;
  };
  const RankPlan cube = partners("3d", 1000, 1000);
  for (const char* axis : {"tp.i", "tp.j", "tp.l"}) EXPECT_EQ(cube.partners.at(axis), 9) << axis;
  EXPECT_EQ(cube.partners.at("tp.mirror"), 1);
  const RankPlan square = partners("2d", 100, 100);
  EXPECT_EQ(square.partners.at("tp.row"), 9);
  EXPECT_EQ(square.partners.at("tp.column"), 9);
  EXPECT_EQ(square.partners.at("tp.mirror"), 1);
  EXPECT_EQ(square.training_partners, 19);
}

TEST(Plan, RingsHaveTwoNeighbours) {
  const Job job = job_of({.sp = 7});
  for (int rank = 0; rank < 7; ++rank) {
    const plan::RecordedStep step = plan::record_step(job, rank);
    std::set<int> partners;
    for (const plan::Collective& call : step.recording.collectives) {
      if (call.reason != comm::Reason::sequence) continue;
      const std::vector<int>& ranks = step.recording.rank_lists[call.partners];
      partners.insert(ranks.begin(), ranks.end());
    }
    EXPECT_EQ(partners, (std::set<int>{(rank + 1) % 7, (rank + 6) % 7}));
  }
}

TEST(Plan, TheRanksRecordedHoldTheLargestOfAll) {
  for (const PlannedRun& layout : std::vector<PlannedRun>{
           {.dp = 5, .sp = 1, .tp = 3, .zero = 1},
           {.family = "llama", .dp = 4, .sp = 3, .tp = 1, .zero = 1, .num_micro_batches = 2},
           {.family = "llama", .dp = 3, .sp = 2, .tp = 4, .zero = 1, .compute = "bf16"},
           {.dp = 6, .sp = 2, .tp = 1, .sp_mode = "ulysses", .zero = 0},
           {.dp = 3, .tp = 6, .zero = 1, .num_micro_batches = 2},
           {.family = "llama", .dp = 3, .tp = 6, .zero = 1},
           {.tp = 9, .tp_mode = "2d", .num_micro_batches = 2},
           {.dp = 2, .tp = 8, .tp_mode = "2.5d", .zero = 1},
           {.tp = 27, .tp_mode = "3d"},
           {.pp = 3, .dp = 3, .zero = 1, .num_micro_batches = 4},
           {.pp = 2, .dp = 2, .tp = 4, .pp_schedule = "zb-v", .zero = 3, .num_micro_batches = 3}}) {
    const Job job = job_of(layout);
    const Plan plan = plan::make_plan(job);
    at::set_num_threads(job.threads);
    Plan of_all{.checkpoint_bytes = plan.checkpoint_bytes};  // not of ranks
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      of_all.ranks.push_back(plan_of(plan::record_step(job, rank), rank));
    }
    nlohmann::ordered_json expected = to_json(job, of_all), found = to_json(job, plan);
    for (nlohmann::ordered_json* json : {&expected, &found}) {
      json->erase("recorded_ranks");
      json->erase("plan_seconds");
    }
    EXPECT_EQ(found.dump(1), expected.dump(1)) << plan.ranks.size() << " recorded";
  }
}

TEST(Plan, RecordsFewRanksWhereAllShareEvenly) {
  const Job even = job_of({.dp = 100, .tp = 6});
  EXPECT_EQ(plan::ranks_to_record(even), (std::vector<int>{0, 5, 594, 599}));
  const Job uneven = job_of({.dp = 100, .tp = 4});
  EXPECT_EQ(plan::ranks_to_record(uneven), (std::vector<int>{0, 1, 2, 3, 396, 397, 398, 399}));
}

TEST(Plan, HasTheKeysOfMetrics) {
  const Job job = job_of({.dp = 2, .tp = 2, .zero = 1});
  const nlohmann::ordered_json json = to_json(job, plan::make_plan(job));
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["tokens"], 6 * 22);
  EXPECT_GT(json["memory_at_peak"], 0);
  int64_t kinds = 0;
  for (const auto& [kind, bytes] : json["memory_by_kind"].items()) kinds += bytes.get<int64_t>();
  EXPECT_EQ(json["memory_at_peak"], kinds);
  EXPECT_FALSE(json.contains("memory_peak_bytes"));  // of a process, which a plan is not
  for (const char* axis : {"dp", "tp", "dp+tp"}) EXPECT_GT(json["bytes_sent"][axis], 0) << axis;
}

TEST(Plan, ReadsWell) {
  const Job job = job_of({.dp = 2, .tp = 2, .zero = 1});
  const std::string text = describe(job, plan::make_plan(job));
  for (const char* wanted : {"dp 2 x tp 2 (tokens shared)", "activations", "dp+tp", "gradient",
                             "partners", "4 of 4 ranks recorded"}) {
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  }
  const Job alone = job_of({});
  EXPECT_EQ(describe(alone, plan::make_plan(alone)).find("sent in a step"), std::string::npos);
}

TEST(Plan, SaysWhatEachStageCosts) {
  const Job job = job_of({.pp = 2, .dp = 2, .pp_schedule = "1f1b", .num_micro_batches = 4});
  const Plan plan = plan::make_plan(job);
  const nlohmann::ordered_json json = to_json(job, plan);
  ASSERT_EQ(json["stages"].size(), 2u);
  int64_t blocks = 0, most = 0, parameters = 0;
  for (const auto& stage : json["stages"]) {
    blocks += stage["blocks"].get<int64_t>();
    most = std::max(most, stage["memory_at_peak"].get<int64_t>());
    parameters += stage["parameters"].get<int64_t>();
  }
  EXPECT_EQ(blocks, job.model.facts.layers);
  EXPECT_EQ(most, json["memory_at_peak"]);
  // The tied table is at both ends.
  EXPECT_EQ(parameters, job.model.facts.parameters + 101 * 72);
  EXPECT_EQ(json["stages"][0]["activations_in_flight"], 2);
  EXPECT_EQ(json["stages"][1]["activations_in_flight"], 1);
  EXPECT_EQ(json["micro_batches"], 4);
  EXPECT_GT(json["bubble_share"], 0.05);
  EXPECT_LT(json["bubble_share"], 0.4);
  const std::string text = describe(job, plan);
  for (const char* wanted : {"pp 2 (1f1b, layers ", "4 micro-batches) x dp 2 | ", "in flight",
                             "is bubble", "rank 1  ", "F0"}) {
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  }
}

// 405 billion parameters at 1,024 ranks: nothing of it is allocated.
TEST(Plan, OfAModelThatFitsNowhereHere) {
  RunConfig config;
  config.model.preset = "llama3.1-405b";
  config.data.sequence_length = 8192;
  config.parallel.tp = 8;
  config.train.global_batch = 128;
  config.precision.compute = "bf16";
  const Job job = resolve_job(config, {.ranks = 1024});
  const RankPlan plan = plan_of(plan::record_step(job, 1017), 1017);
  EXPECT_NEAR(static_cast<double>(plan.parameters), 405.85e9 / 8, 1e9);
  EXPECT_GT(plan.memory_peak_bytes(), plan.parameters * 4);  // weights and gradients in bf16
  EXPECT_NEAR(plan.flops, job.model.facts.flops_per_token(8192) * 8192 / 8, 0.05 * plan.flops);
}

}  // namespace
}  // namespace colossal::test
