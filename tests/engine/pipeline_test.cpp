// Same numbers: pipelines of every schedule, and of anything else with them, against the serial
// run.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <random>
#include <set>

#include "colossal/parallel/pipeline/schedules.h"
#include "tests/support/covering.h"
#include "tests/support/layout_cases.h"
#include "tests/support/pairwise.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test::pipelines {
namespace {

struct PipelineCase {
  Strategy layout;
  int64_t micro_batches;  // of each replica
  bool llama = false;
  int recompute = 0;  // 0: nothing; 1: selective; 2: selective, and the first block of each stage
  int offload = 0;    // 0: nothing; 1: all to the host; 2: all to NVMe; 3: parts of all to both
  double dropout = 0;
  bool reduce_once_per_step = false;
  bool order_known = false;
};

int64_t num_blocks(const PipelineCase& c) {
  return c.layout.num_stages() + 1;  // one stage has two
}

std::string pipeline_case_name(const testing::TestParamInfo<PipelineCase>& info) {
  const PipelineCase& c = info.param;
  return fmt::format("{}{}_micro{}_kept{}_rest{}{}{}{}", c.llama ? "llama_" : "",
                     layout_name(c.layout), c.micro_batches, c.recompute, c.offload,
                     c.dropout > 0 ? "_dropout" : "", c.reduce_once_per_step ? "_whole" : "",
                     c.order_known ? "_ordered" : "");
}

Strategy pipeline(const std::string& schedule, int pp, int chunks = 1) {
  Strategy layout;
  layout.pp = pp;
  layout.pp_chunks = chunks;
  layout.pp_schedule = schedule;
  layout.stage_ranks = parallel::pipeline::make_schedule(schedule, {pp, chunks, 1}).rank_of_stage;
  return layout;
}

// Blocks cut unevenly, the extra one in the middle.
Strategy with_blocks(Strategy layout) {
  layout.stage_blocks.assign(layout.num_stages(), 1);
  layout.stage_blocks[layout.num_stages() / 2] = 2;
  return layout;
}

memory::Tiers tiers_of(int offload) {
  constexpr memory::TierShares kShares[] = {
      {}, {.host = 1}, {.nvme = 1}, {.host = 0.3, .nvme = 0.4}};
  const memory::TierShares shares = kShares[offload];
  return {.parameters = shares,
          .gradients = shares,
          .optimizer = shares,
          .activations = shares,
          .nvme_path = std::filesystem::temp_directory_path()};
}

TinyTraining pipeline_training(const PipelineCase& c) {
  TinyTraining training;
  training.layout = with_blocks(c.layout);
  training.model = c.llama ? tiny_llama(c.dropout) : tiny_gpt2(c.dropout);
  training.model.layers = num_blocks(c);
  training.reduce_once_per_step = c.reduce_once_per_step;
  training.order_known = c.order_known;
  training.recompute = {.selective = c.recompute > 0, .full_blocks = c.recompute == 2 ? 1 : 0};
  training.tiers = tiers_of(c.offload);
  const int64_t share = training.global_batch / std::max(1, c.layout.dp);
  training.micro_batch = (share + c.micro_batches - 1) / c.micro_batches;
  return training;
}

TinyResult serial_run(const PipelineCase& c) {
  TinyTraining training = pipeline_training(c);
  training.layout = Strategy{};
  training.micro_batch = 0;
  training.recompute = {};
  training.tiers = {};
  training.reduce_once_per_step = training.order_known = false;
  return train_tiny(training, 1);
}

class Pipeline : public testing::TestWithParam<PipelineCase> {};

TEST_P(Pipeline, EqualsSerial) {
  const PipelineCase& c = GetParam();
  const TinyTraining training = pipeline_training(c);
  const int ranks = c.layout.pp * c.layout.dp * c.layout.sp * c.layout.tp;
  expect_same(train_tiny(training, ranks), serial_run(c), 1e-9, training);
}

std::vector<PipelineCase> schedule_cases() {
  std::vector<PipelineCase> cases;
  for (const int pp : {2, 3, 4}) {
    for (const int64_t micro_batches : {1, 2, 4, 5}) {
      for (const bool llama : {false, true}) {
        for (const char* schedule : {"gpipe", "1f1b"}) {
          cases.push_back({pipeline(schedule, pp), micro_batches, llama});
        }
      }
    }
  }
  for (const int pp : {2, 3}) {
    for (const int64_t micro_batches : {1, 3, 4, 6}) {
      cases.push_back({pipeline("interleaved", pp, 2), micro_batches});
      for (const char* schedule : {"zb-h1", "zb-h2"}) {
        cases.push_back({pipeline(schedule, pp), micro_batches});
      }
      for (const char* schedule : {"zb-v", "v-half", "v-min", "dualpipe-v"}) {
        cases.push_back({pipeline(schedule, pp, 2), micro_batches, /*llama=*/pp == 3});
      }
    }
  }
  return cases;
}

// Every third of them, among which each schedule has several numbers of stages and micro-batches.
std::vector<PipelineCase> few_schedule_cases() {
  const std::vector<PipelineCase> all = schedule_cases();
  std::vector<PipelineCase> cases;
  for (size_t i = 0; i < all.size(); i += 3) cases.push_back(all[i]);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pipeline, testing::ValuesIn(few_schedule_cases()),
                         pipeline_case_name);
INSTANTIATE_TEST_SUITE_P(SlowSchedules, Pipeline, testing::ValuesIn(schedule_cases()),
                         pipeline_case_name);

// What else a pipeline goes together with. The ranks of each mesh times those of a pipeline.
constexpr Strategy kMeshes[] = {
    {},
    {.dp = 2},
    {.dp = 3},
    {.sp = 2},
    {.sp = 2, .sequence_mode = SequenceMode::ulysses},
    {.tp = 2},
    {.tp = 2, .tp_sequence = false},
    {.dp = 2, .tp = 2},
    {.dp = 2, .sp = 2},
    {.sp = 2, .tp = 2},
    {.dp = 4, .zero_group = 2},
    {.tp = 4, .tensor_mode = TensorMode::two_d},
    {.tp = 4, .tensor_mode = TensorMode::two_and_half_d},
};

struct PipelineSetting {
  const char* schedule;
  int pp;
  int chunks;
};

constexpr PipelineSetting kPipelines[] = {
    {"gpipe", 2, 1}, {"gpipe", 3, 1},       {"1f1b", 2, 1},        {"1f1b", 3, 1},
    {"1f1b", 4, 1},  {"zb-h1", 2, 1},       {"zb-h1", 3, 1},       {"zb-h2", 2, 1},
    {"zb-h2", 4, 1}, {"interleaved", 2, 2}, {"interleaved", 2, 3}, {"zb-v", 2, 2},
    {"zb-v", 3, 2},  {"v-half", 2, 2},      {"v-min", 2, 2},       {"dualpipe-v", 2, 2},
};

// Settings of a combination, and how many options each has.
enum Setting {
  kPipeline,
  kMesh,
  kZero,
  kTableRows,
  kMicroBatches,
  kLlama,
  kRecompute,
  kOffload,
  kDropout,
  kAccumulateWhole,
  kOrderKnown
};
const Choice kOptions{static_cast<int>(std::size(kPipelines)),
                      static_cast<int>(std::size(kMeshes)),
                      4,
                      2,
                      4,
                      2,
                      3,
                      4,
                      2,
                      2,
                      2};

PipelineCase combination(const Choice& choice) {
  const PipelineSetting& setting = kPipelines[choice[kPipeline]];
  PipelineCase c{pipeline(setting.schedule, setting.pp, setting.chunks), 1};
  const Strategy& mesh = kMeshes[choice[kMesh]];
  c.layout.dp = mesh.dp;
  c.layout.sp = mesh.sp;
  c.layout.tp = mesh.tp;
  c.layout.zero_group = mesh.zero_group;
  c.layout.tensor_mode = mesh.tensor_mode;
  c.layout.tp_sequence = mesh.tp_sequence;
  c.layout.sequence_mode = mesh.sequence_mode;
  c.layout.zero = choice[kZero];
  c.layout.table_rows = choice[kTableRows] * 7;
  c.micro_batches = std::array{1, 3, 4, 6}[choice[kMicroBatches]];
  c.llama = choice[kLlama] == 1;
  c.recompute = choice[kRecompute];
  c.offload = choice[kOffload];
  c.dropout = choice[kDropout] * 0.2;
  c.reduce_once_per_step = choice[kAccumulateWhole] == 1;
  c.order_known = choice[kOrderKnown] == 1;
  return c;
}

// Groups share out what a stage of ZeRO shards, and only gradients that it shards could accumulate
// otherwise than whole.
bool is_possible(const Choice& choice) {
  constexpr int kMostRanks = 8;
  const Strategy& mesh = kMeshes[choice[kMesh]];
  const int ranks = kPipelines[choice[kPipeline]].pp * mesh.dp * mesh.sp * mesh.tp;
  return ranks <= kMostRanks && (choice[kZero] > 0 || mesh.zero_group == 0) &&
         (choice[kZero] >= 2 || choice[kAccumulateWhole] == 0);
}

std::vector<PipelineCase> drawn_combinations(size_t count) {
  std::vector<PipelineCase> cases;
  std::set<Choice> drawn;
  std::mt19937_64 draws(1);
  while (cases.size() < count) {
    Choice choice;
    for (const int options : kOptions) choice.push_back(static_cast<int>(draws() % options));
    if (is_possible(choice) && drawn.insert(choice).second) cases.push_back(combination(choice));
  }
  return cases;
}

std::vector<PipelineCase> three_wise_combinations() {
  std::vector<PipelineCase> cases;
  for (const Choice& choice : ThreeWiseCovering(kOptions, is_possible).make()) {
    cases.push_back(combination(choice));
  }
  return cases;
}

double schedule_number(const std::string& name) {
  const auto all = parallel::pipeline::schedules();
  return static_cast<double>(
      std::ranges::find(all, name, &parallel::pipeline::BuiltInSchedule::name) - all.begin());
}

std::vector<PipelineCase> few_combinations() {
  return most_pairs(drawn_combinations(600), [](const PipelineCase& c) {
    return layout_settings(
        c.layout, {schedule_number(c.layout.pp_schedule), static_cast<double>(c.micro_batches),
                   static_cast<double>(c.llama), static_cast<double>(c.recompute),
                   static_cast<double>(c.offload), c.dropout, static_cast<double>(c.order_known)});
  });
}

INSTANTIATE_TEST_SUITE_P(Combinations, Pipeline, testing::ValuesIn(few_combinations()),
                         pipeline_case_name);
INSTANTIATE_TEST_SUITE_P(SlowCombinations, Pipeline, testing::ValuesIn(three_wise_combinations()),
                         pipeline_case_name);

// Of modes that take 8 ranks for each stage.
std::vector<PipelineCase> wide_cases() {
  std::vector<PipelineCase> cases;
  for (const PipelineSetting& setting : {PipelineSetting{"1f1b", 2, 1}, {"zb-v", 2, 2}}) {
    for (const auto& [mode, depth] :
         {std::pair{TensorMode::two_and_half_d, 2}, std::pair{TensorMode::three_d, 1}}) {
      for (const int zero : {1, 3}) {
        PipelineCase c{pipeline(setting.schedule, setting.pp, setting.chunks), 3};
        c.layout.tp = 8;
        c.layout.tensor_mode = mode;
        c.layout.tp_depth = depth;
        c.layout.zero = zero;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(SlowWideModes, Pipeline, testing::ValuesIn(wide_cases()),
                         pipeline_case_name);

TEST(PipelineRuns, InFp32EqualTheSerialRun) {
  for (PipelineCase c :
       {PipelineCase{pipeline("1f1b", 3), 4}, PipelineCase{pipeline("zb-h1", 2), 3},
        PipelineCase{pipeline("zb-v", 2, 2), 4, /*llama=*/true}}) {
    TRACED_CASE(layout_name(c.layout));
    TinyTraining training = pipeline_training(c);
    training.compute = training.gradient = at::kFloat;
    TinyTraining alone = training;
    alone.layout = Strategy{};
    alone.micro_batch = 0;
    expect_same(train_tiny(training, c.layout.pp), train_tiny(alone, 1), 1e-4, training);
  }
}

// Micro-batches of every length from 4 to 9, other ones on other ranks; one rank has no labels.
TEST(MixedLengths, AreCountedRightAtEveryLayout) {
  TinyTraining training;
  training.model.layers = 4;
  training.global_batch = 6;
  training.micro_batch = 1;
  training.sequence_of = [](int64_t sample) { return 9 - sample; };
  training.ignored = [](int64_t sample, int64_t position) {
    return sample < 2 || (sample == 4 && position == 1);
  };
  const TinyResult reference = train_tiny(training, 1);
  for (const auto& [layout, ranks] : std::vector<std::pair<Strategy, int>>{
           {{.zero = 0}, 2},
           {{.zero = 1}, 3},
           {{.zero = 3}, 3},
           {{.sp = 2, .zero = 2}, 4},
           {{.tp = 2, .zero = 1}, 4},
           {with_blocks(pipeline("1f1b", 3)), 3},
           {with_blocks(pipeline("zb-h1", 3)), 6},
       }) {
    TRACED_CASE(layout_name(layout));
    training.layout = layout;
    expect_same(train_tiny(training, ranks), reference, 1e-9, training);
  }
}

TEST(PipelineRuns, GiveTheSameBitsTwice) {
  TinyTraining training = pipeline_training({pipeline("zb-v", 2, 2), 4});
  training.compute = training.gradient = at::kFloat;
  const TinyResult a = train_tiny(training, 2), b = train_tiny(training, 2);
  EXPECT_EQ(a.losses, b.losses);
  for (const auto& [name, weight] : a.weights) {
    EXPECT_TRUE(at::equal(b.weights.at(name), weight)) << name;
  }
}

}  // namespace
}  // namespace colossal::test::pipelines
