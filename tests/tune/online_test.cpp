// Methods that learn from the model's own completions: trainer and sampler compute the same values
// at every layout and after a restart, and rewards rise.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "colossal/checkpoint/merged_folder.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/report/metrics_log.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/resolve.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/train_on_ranks.h"
#include "tests/tune/saved_model.h"

namespace colossal::tune {
namespace {

using testing::HasSubstr;

constexpr double kOnlineTolerance = 1e-9;
constexpr const char* kSamplerDifference = "sampling/sampling_logp_difference/mean";

struct OnlineRun {
  const TuningMethod* method = &grpo();
  int ranks = 1;
  std::function<void(RunConfig&, TuneConfig&)> change = [](RunConfig&, TuneConfig&) {};
  std::function<bool()> stop_requested = [] { return false; };
};

std::string prompts() {
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    lines +=
        fmt::format("{{\"prompt\": \"{}\", \"solution\": {}}}\n", std::string(1 + i % 5, 'p'), i);
  }
  return lines;
}

using Steps = std::vector<report::StepMetrics>;

Steps run_online(const OnlineRun& given, const std::filesystem::path& folder) {
  std::ofstream(folder / "prompts.jsonl") << prompts();
  RunConfig config;
  Tuning tuning{.method = given.method, .config = {}};
  set_defaults(*given.method, config, tuning.config);
  config.model.preset = "gpt2-tiny";
  config.model.overrides = {
      {"n_layer", 2}, {"n_embd", 24}, {"n_head", 3}, {"vocab_size", 259}, {"n_positions", 24}};
  config.data.train = {(folder / "prompts.jsonl").string()};
  config.data.sequence_length = 24;
  config.train.steps = 4;
  config.train.global_batch = 12;
  config.train.dropout = 0;
  config.optimizer.learning_rate = 1e-2;
  config.precision.compute = "fp64";
  config.log.directory = (folder / "log").string();
  config.log.report = false;
  tuning.config.num_generations = 6;
  tuning.config.max_completion_length = 12;
  tuning.config.reward = {"length", "repetition"};
  given.change(config, tuning.config);
  const Job job = resolve_job(config, {.ranks = given.ranks, .local_ranks = given.ranks});
  test::train_on_ranks(job, make_task(tuning), {.stop_requested = given.stop_requested});
  return report::read_metrics(folder / "log" / "metrics.jsonl");
}

Steps run_online(const OnlineRun& given) {
  const test::TemporaryDirectory directory(test::Storage::memory);
  return run_online(given, directory.path());
}

// Rewards the share of lower-case letters among twelve tokens: at most 1. Rewards differ within
// groups.
void reward_letters(RunConfig&, TuneConfig& tune) {
  tune.reward = {R"(command:sed -e 's/.*"completion":"//' -e 's/","prompt.*//' -e 's/\\u....//g' \
                        -e 's/\\.//g' -e 's/[^a-z]//g' | awk '{ print length($0) / 12 }')"};
}

void reuse_completions(RunConfig& run, TuneConfig& tune) {
  reward_letters(run, tune);
  tune.num_iterations = 2;
  tune.steps_per_generation = 2;
  tune.beta = 0.1;
  tune.temperature = 0.8;
}

void reward_by_model(RunConfig&, TuneConfig& tune) {
  tune.reward = {"length", "judge=model:" + saved_model(reward())};
  tune.reward_weights = {0.5, 2};
}

// Settings for PPO, which does not compare completions of a group.
void reuse_alone(RunConfig& run, TuneConfig& tune) {
  reuse_completions(run, tune);
  tune.num_generations = 1;
  tune.missing_eos_penalty = 0.2;
  tune.whiten_rewards = true;
}

void begin_earlier(RunConfig& run, TuneConfig& tune) {
  reward_letters(run, tune);
  run.train.steps = 5;
  tune.max_staleness = 2;
  tune.importance_sampling_mode = ImportanceCorrection::sequence_truncate;
  tune.importance_sampling_clip_max = 1.02;
}

// Settings for PPO.
void begin_earlier_alone(RunConfig& run, TuneConfig& tune) {
  reuse_alone(run, tune);
  run.train.steps = 8;
  tune.max_staleness = 1;
  tune.importance_sampling_mode = ImportanceCorrection::token_truncate;
}

struct OnlineVariant {
  std::string name;
  const TuningMethod* method;
  std::function<void(RunConfig&, TuneConfig&)> change;
};

const std::vector<OnlineVariant>& online_variants() {
  static const std::vector<OnlineVariant> all{{"grpo", &grpo(), reward_letters},
                                              {"grpo_reused", &grpo(), reuse_completions},
                                              {"gspo", &grpo(),
                                               [](RunConfig& run, TuneConfig& tune) {
                                                 reuse_completions(run, tune);
                                                 tune.loss_type = {"grpo"};
                                                 tune.importance_sampling_level =
                                                     ImportanceLevel::sequence;
                                                 tune.dynamic_sampling = true;
                                               }},
                                              {"grpo_by_model", &grpo(), reward_by_model},
                                              {"grpo_stale", &grpo(), begin_earlier},
                                              {"rloo", &rloo(), reuse_completions},
                                              {"rloo_stale", &rloo(), begin_earlier},
                                              {"ppo_stale", &ppo(), begin_earlier_alone},
                                              {"ppo", &ppo(), reuse_alone}};
  return all;
}

class SamplerIsTrainer : public testing::TestWithParam<std::tuple<const char*, double>> {};
TEST_P(SamplerIsTrainer, InLogProbabilities) {
  const auto& [precision, tolerance] = GetParam();
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    SCOPED_TRACE(preset);
    const Steps steps = run_online({.change = [&](RunConfig& run, TuneConfig& tune) {
      reward_letters(run, tune);
      tune.temperature = 0.7;
      run.precision.compute = precision;
      if (preset == std::string("llama-tiny")) {
        run.model.preset = preset;
        run.model.overrides = {{"vocab_size", 259}};
      }
    }});
    ASSERT_EQ(steps.size(), 4u);
    for (const report::StepMetrics& step : steps) {
      EXPECT_LE(step.task_metrics.at(kSamplerDifference), tolerance);
      EXPECT_GE(step.task_metrics.at("sampling/sampling_logp_difference/max"),
                step.task_metrics.at(kSamplerDifference));
      EXPECT_LE(step.task_metrics.at("sampling/sampling_logp_difference/max"), 10 * tolerance);
      EXPECT_GT(step.task_metrics.at("entropy"), 1);
      EXPECT_EQ(step.task_metrics.at("clip_ratio/region_mean"), 0);  // on policy
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Precision, SamplerIsTrainer,
                         testing::Values(std::tuple{"fp64", 1e-11}, std::tuple{"fp32", 1e-5}));

// Log-probabilities are over the whole vocabulary: on policy, ratios are 1 even if only a part of
// it is sampled from.
TEST(SamplerEqualsTrainer, WhateverPartOfTheVocabularyIsSampled) {
  const Steps steps = run_online({.change = [](RunConfig& run, TuneConfig& tune) {
    reward_letters(run, tune);
    tune.top_k = 20;
    tune.top_p = 0.8;
    tune.min_p = 0.01;
    tune.importance_sampling_mode = ImportanceCorrection::token_mask;
    tune.importance_sampling_clip_max = 1 + 1e-9;
    tune.importance_sampling_clip_min = 1 - 1e-9;
  }});
  ASSERT_EQ(steps.size(), 4u);
  for (const report::StepMetrics& step : steps) {
    EXPECT_LE(step.task_metrics.at("sampling/sampling_logp_difference/max"), 1e-11);
    EXPECT_EQ(step.task_metrics.at("clip_ratio/region_mean"), 0);
    EXPECT_NEAR(step.task_metrics.at("sampling/importance_sampling_ratio/mean"), 1, 1e-9);
    EXPECT_GT(step.grad_norm, 0);
  }
}

struct OnlineLayout {
  std::string name;
  int ranks;
  std::function<void(RunConfig&)> change;
};

const std::vector<OnlineLayout>& online_layouts() {
  static const std::vector<OnlineLayout> all{
      {"micro_batches", 1, [](RunConfig& c) { c.train.micro_batch = 5; }},
      {"recompute", 1, [](RunConfig& c) { c.memory.recompute = "full"; }},
      {"host_tiers", 1,
       [](RunConfig& c) { c.memory.offload_parameters = c.memory.offload_optimizer = "host"; }},
      // A rank has four of the six completions of a group.
      {"dp3", 3, [](RunConfig& c) { c.parallel.zero = 0; }},
      {"dp4_zero2", 4, [](RunConfig& c) { c.parallel.zero = 2; }},
      {"dp3_zero3", 3, [](RunConfig& c) { c.parallel.zero = 3; }},
      {"tp2", 2, [](RunConfig& c) { c.parallel.tp = 2; }},
      {"tp3_whole_tokens", 3,
       [](RunConfig& c) {
         c.parallel.tp = 3;
         c.parallel.tp_sequence = false;
       }},
      {"ring2", 2, [](RunConfig& c) { c.parallel.sp = 2; }},
      {"dp2_ulysses3", 6,
       [](RunConfig& c) {
         c.parallel.sp = 3;
         c.parallel.sp_mode = "ulysses";
       }},
      {"sp2_tp2_zero3", 4,
       [](RunConfig& c) {
         c.parallel.sp = c.parallel.tp = 2;
         c.parallel.zero = 3;
       }},
      {"pp2", 2, [](RunConfig& c) { c.parallel.pp = 2; }},
      {"dp2_pp2_zero3", 4,
       [](RunConfig& c) {
         c.parallel.pp = 2;
         c.parallel.zero = 3;
       }},
      {"dp2_tp2_tiers", 4,
       [](RunConfig& c) {
         c.parallel.tp = 2;
         c.memory.offload_parameters = "host";
       }},
      {"tp4_2d", 4,
       [](RunConfig& c) {
         c.parallel.tp = 4;
         c.parallel.tp_mode = "2d";
       }},
      {"tp8_3d", 8, [](RunConfig& c) {
         c.parallel.tp = 8;
         c.parallel.tp_mode = "3d";
       }}};
  return all;
}

std::map<std::string, double> without_times(const report::StepMetrics& step) {
  std::map<std::string, double> metrics = step.task_metrics;
  std::erase_if(metrics, [](const auto& metric) { return metric.first.ends_with("seconds"); });
  return metrics;
}

void expect_same_steps(const Steps& found, const Steps& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  const auto near = [&](double a, double b, const std::string& what) {
    EXPECT_LE(std::abs(a - b), tolerance * std::max(1.0, std::abs(b)))
        << what << ": " << a << ", " << b;
  };
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(fmt::format("step {}", i + 1));
    near(found[i].loss, expected[i].loss, "loss");
    near(found[i].grad_norm, expected[i].grad_norm, "grad_norm");
    EXPECT_EQ(found[i].tokens, expected[i].tokens);
    const auto task_metrics = without_times(expected[i]), found_of_task = without_times(found[i]);
    ASSERT_EQ(found_of_task.size(), task_metrics.size());
    for (const auto& [name, value] : task_metrics) near(found_of_task.at(name), value, name);
  }
}

// Sampling during updates gives the same results as sampling before them.
class OnlineOverlap : public testing::TestWithParam<OnlineLayout> {
 protected:
  static void learn_later(RunConfig& run, TuneConfig& tune) {
    begin_earlier(run, tune);
    tune.beta = 0.1;
    tune.num_iterations = 2;
    run.train.steps = 6;
  }
  static Steps run(bool overlap, const OnlineLayout& layout) {
    return run_online({.ranks = layout.ranks, .change = [&](RunConfig& run, TuneConfig& tune) {
                         learn_later(run, tune);
                         tune.overlap_sampling = overlap;
                         layout.change(run);
                       }});
  }
};

double overlapped_seconds(const Steps& steps) {
  double sum = 0;
  for (const report::StepMetrics& step : steps) {
    const auto overlapped = step.task_metrics.find("sampling/overlapped_seconds");
    if (overlapped == step.task_metrics.end()) continue;
    EXPECT_GE(step.task_metrics.at("sampling/seconds"), overlapped->second);
    sum += overlapped->second;
  }
  return sum;
}

TEST_P(OnlineOverlap, ChangesNoBit) {
  const Steps beside = run(true, GetParam()), after = run(false, GetParam());
  expect_same_steps(beside, after, 0);
  // The sampler has its own layers, which compute the norms of DoRA once more; ranks along tp sum
  // them.
  const bool makes_norms = GetParam().name == "dora_tp3";
  for (size_t i = 0; i < after.size() && !makes_norms; ++i) {
    EXPECT_EQ(beside[i].bytes_sent, after[i].bytes_sent);
  }
  EXPECT_GT(after.back().grad_norm, 0);
  EXPECT_GT(after.back().task_metrics.at("staleness/1"), 0.1);
  EXPECT_EQ(overlapped_seconds(after), 0);
  const bool takes_turns = GetParam().name.ends_with("zero3") || GetParam().name.ends_with("tiers");
  EXPECT_EQ(overlapped_seconds(beside) > 0, !takes_turns);
}

void use_experts(RunConfig& run) {
  run.model.preset = "mixtral-8x7b";
  run.model.overrides = {
      {"vocab_size", 259},      {"hidden_size", 24},        {"intermediate_size", 20},
      {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
      {"num_local_experts", 5}, {"num_experts_per_tok", 2}, {"max_position_embeddings", 24}};
}

// DoRA's weight norms change with each update.
void use_dora(RunConfig& run) {
  run.model = {.path = saved_model(sft())};
  run.adapter.kind = "lora";
  run.adapter.rank = 3;
  run.adapter.dora = true;
  run.adapter.dropout = 0;
}

std::vector<OnlineLayout> overlap_layouts() {
  return {
      {"alone", 1, [](RunConfig&) {}},
      {"dp3", 3, [](RunConfig& c) { c.parallel.zero = 1; }},
      {"dp2_pp2", 4, [](RunConfig& c) { c.parallel.pp = 2; }},
      {"sp2_tp2_zero2", 4,
       [](RunConfig& c) {
         c.parallel.sp = c.parallel.tp = 2;
         c.parallel.zero = 2;
       }},
      {"tp2_ep2_recompute", 2,
       [](RunConfig& c) {
         use_experts(c);
         c.parallel.tp = c.parallel.ep = 2;
         c.memory.recompute = "full";
       }},
      {"dora_dp2", 2, use_dora},
  };
}

// What these settings have besides, for --all only.
std::vector<OnlineLayout> more_overlap_layouts() {
  return {
      {"tp3", 3, [](RunConfig& c) { c.parallel.tp = 3; }},
      {"tp4_2d", 4,
       [](RunConfig& c) {
         c.parallel.tp = 4;
         c.parallel.tp_mode = "2d";
       }},
      {"dp2_ep2", 2,
       [](RunConfig& c) {
         use_experts(c);
         c.parallel.ep = 2;
       }},
      {"dora_tp3", 3,
       [](RunConfig& c) {
         use_dora(c);
         c.parallel.tp = 3;
       }},
      {"dp2_zero3", 2, [](RunConfig& c) { c.parallel.zero = 3; }},
      {"host_tiers", 1, [](RunConfig& c) { c.memory.offload_parameters = "host"; }},
  };
}

INSTANTIATE_TEST_SUITE_P(Few, OnlineOverlap, testing::ValuesIn(overlap_layouts()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(SlowMore, OnlineOverlap, testing::ValuesIn(more_overlap_layouts()),
                         [](const auto& info) { return info.param.name; });

// An update waits for the sampler's reads of weights; it waits for rewards only during the update
// after the one in which they were requested.
TEST(OnlineOverlapTime, IsThatOfThePasses) {
  const Steps steps = run_online({.change = [](RunConfig& run, TuneConfig& tune) {
    begin_earlier(run, tune);
    run.train.micro_batch = 1;
    tune.reward.push_back("command:sleep 0.2; sed s/.*/1/");
  }});
  double overlapped = 0, all = 0;
  for (const report::StepMetrics& step : steps) {
    EXPECT_EQ(step.task_metrics.at("rewards/failures"), 0);
    overlapped += step.task_metrics.at("sampling/overlapped_seconds");
    all += step.task_metrics.at("sampling/seconds");
  }
  EXPECT_GT(all, 0.2 * 2);
  EXPECT_GT(overlapped, 0.02);
}

// The program answers only after the update during which it was asked: waiting for it earlier would
// time out.
TEST(OnlineOverlapTime, OfAnUpdateIsNotThatOfAReward) {
  for (const bool overlap : {true, false}) {
    const test::TemporaryDirectory directory(test::Storage::memory);
    const std::string updates = directory.write("updates", ""),
                      asked = directory.write("asked", "");
    const auto waiting = [&](RunConfig& run, TuneConfig& tune) {
      run.train.steps = 6;
      tune.max_staleness = 2;
      tune.overlap_sampling = overlap;
      tune.reward_timeout = std::chrono::seconds(10);
      tune.reward = {fmt::format(
          "command:asked=$(wc -c < {1}); printf a >> {1}; while [ $(wc -c < {0}) -lt $asked ]; do "
          "sleep 0.01; done; sed s/.*/1/",
          updates, asked)};
    };
    const Steps steps = run_online({.change = waiting, .stop_requested = [&] {
                                      std::ofstream(updates, std::ios::app) << "u";
                                      return false;
                                    }});
    ASSERT_EQ(steps.size(), 6u);
    for (const report::StepMetrics& step : steps) {
      EXPECT_EQ(step.task_metrics.at("rewards/failures"), 0);
      EXPECT_EQ(step.task_metrics.at("reward"), 1);
    }
    EXPECT_GE(std::filesystem::file_size(asked), 6);
    EXPECT_GT(steps.back().task_metrics.at("staleness/2"), 0.9);
  }
}

// The memory of a sampler is known before the run: when it samples alone and needs more than the
// passes do, and when it samples during the passes.
class SamplerMemory : public testing::TestWithParam<OnlineLayout> {};
TEST_P(SamplerMemory, IsKnownBeforeTheRun) {
  memory::install_allocators();
  Job job;
  Tuning tuning;
  const auto run = [&](bool overlap) {
    return run_online({.ranks = GetParam().ranks, .change = [&](RunConfig& run, TuneConfig& tune) {
                         begin_earlier(run, tune);
                         run.log.report = true;  // a report counts memory
                         tune.reward = {"length"};
                         run.model.overrides["n_positions"] = 64;
                         run.data.sequence_length = 57;  // the prompts have at most 5 tokens
                         run.train.micro_batch = 1;
                         tune.max_completion_length = 52;
                         tune.overlap_sampling = overlap;
                         GetParam().change(run);
                         const int ranks = GetParam().ranks;
                         job = resolve_job(run, {.ranks = ranks, .local_ranks = ranks});
                         tuning = {&grpo(), tune};
                       }});
  };
  const auto most = [](const Steps& steps, bool states) {
    double bytes = 0;
    for (const report::StepMetrics& step : steps) {
      double all = step.memory_at_peak;
      for (const char* kind : {"parameters", "gradients", "optimizer"}) {
        if (!states) all -= step.memory_by_kind.at(kind);
      }
      bytes = std::max(bytes, all);
    }
    return bytes;
  };
  const Steps alone = run(false);
  EXPECT_EQ(extra_bytes_during_updates(tuning, job), 0);
  const Steps beside = run(true);
  at::set_num_threads(1);  // as the threads of ranks
  const auto planned = static_cast<double>(extra_bytes_during_updates(tuning, job));
  EXPECT_LE(most(alone, false), 1.02 * planned);
  EXPECT_GE(most(alone, false), 0.85 * planned);
  EXPECT_GT(most(beside, false), 0.85 * planned);
  EXPECT_LE(most(beside, true), most(alone, true) + planned);
}
INSTANTIATE_TEST_SUITE_P(
    Layouts, SamplerMemory,
    testing::Values(OnlineLayout{"alone", 1, [](RunConfig&) {}},
                    OnlineLayout{"tp2", 2, [](RunConfig& c) { c.parallel.tp = 2; }},
                    OnlineLayout{"pp2", 2, [](RunConfig& c) { c.parallel.pp = 2; }},
                    OnlineLayout{"dp3", 3, [](RunConfig& c) { c.parallel.zero = 1; }}),
    [](const auto& info) { return info.param.name; });

struct OnlineCase {
  size_t variant = 0, layout = 0;
};

void expect_as_alone(const OnlineCase& given) {
  const OnlineVariant& variant = online_variants()[given.variant];
  const OnlineLayout& layout = online_layouts()[given.layout];
  static std::map<std::string, Steps> alone;
  const auto [expected, is_new] = alone.try_emplace(variant.name);
  if (is_new) {
    expected->second = run_online({.method = variant.method, .change = variant.change});
    EXPECT_GT(expected->second.back().grad_norm, 0);
  }
  const Steps found = run_online({.method = variant.method,
                                  .ranks = layout.ranks,
                                  .change = [&](RunConfig& run, TuneConfig& tune) {
                                    variant.change(run, tune);
                                    layout.change(run);
                                  }});
  expect_same_steps(found, expected->second, kOnlineTolerance);
}

// Ranks that share experts run each pass of the sampler together.
class OnlineExperts : public testing::TestWithParam<OnlineLayout> {};
TEST_P(OnlineExperts, EqualAlone) {
  const auto experts = [](RunConfig& run, TuneConfig& tune) {
    reuse_completions(run, tune);
    run.model.preset = "mixtral-8x7b";
    run.model.overrides = {
        {"vocab_size", 259},      {"hidden_size", 24},        {"intermediate_size", 20},
        {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
        {"num_local_experts", 5}, {"num_experts_per_tok", 2}, {"max_position_embeddings", 24}};
  };
  static const Steps alone = run_online({.change = experts});
  Steps found =
      run_online({.ranks = GetParam().ranks, .change = [&](RunConfig& run, TuneConfig& tune) {
                    experts(run, tune);
                    GetParam().change(run);
                  }});
  ASSERT_EQ(found.size(), alone.size());
  for (size_t i = 0; i < found.size(); ++i) {
    // router_load also counts padding, whose length depends on the longest row of a micro-batch.
    found[i].task_metrics["router_load"] = alone[i].task_metrics.at("router_load");
  }
  expect_same_steps(found, alone, kOnlineTolerance);
}
INSTANTIATE_TEST_SUITE_P(
    All, OnlineExperts,
    testing::Values(
        OnlineLayout{"dp2_ep2", 2, [](RunConfig& c) { c.parallel.ep = 2; }},
        OnlineLayout{"dp3_ep3_zero3", 3,
                     [](RunConfig& c) {
                       c.parallel.ep = 3;
                       c.parallel.zero = 3;
                     }},
        OnlineLayout{"tp2_ep2", 2, [](RunConfig& c) { c.parallel.tp = c.parallel.ep = 2; }},
        OnlineLayout{
            "dp2_tp2_ep2_parts2", 4,
            [](RunConfig& c) { c.parallel.tp = c.parallel.ep = c.parallel.expert_tp = 2; }},
        OnlineLayout{"dp2_pp2_ep2", 4, [](RunConfig& c) { c.parallel.pp = c.parallel.ep = 2; }},
        OnlineLayout{"tp4_2d_ep2", 4,
                     [](RunConfig& c) {
                       c.parallel.tp = 4;
                       c.parallel.tp_mode = "2d";
                       c.parallel.ep = 2;
                     }},
        OnlineLayout{"sp2_ep2", 2, [](RunConfig& c) { c.parallel.sp = c.parallel.ep = 2; }}),
    [](const auto& info) { return info.param.name; });

// Returns every `stride`-th layout of each variant; each variant begins with another layout.
std::vector<OnlineCase> online_cases(size_t stride) {
  std::vector<OnlineCase> cases;
  for (size_t variant = 0; variant < online_variants().size(); ++variant) {
    for (size_t layout = 0; layout < online_layouts().size(); ++layout) {
      if ((variant + layout) % stride == 0) cases.push_back({variant, layout});
    }
  }
  return cases;
}

std::string name_of_online(const testing::TestParamInfo<OnlineCase>& info) {
  return online_variants()[info.param.variant].name + "_" +
         online_layouts()[info.param.layout].name;
}

class OnlineLayouts : public testing::TestWithParam<OnlineCase> {};
TEST_P(OnlineLayouts, EqualAlone) {
  expect_as_alone(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Few, OnlineLayouts, testing::ValuesIn(online_cases(6)), name_of_online);

class SlowOnlineLayouts : public testing::TestWithParam<OnlineCase> {};
TEST_P(SlowOnlineLayouts, EqualAlone) {
  expect_as_alone(GetParam());
}
INSTANTIATE_TEST_SUITE_P(SlowAll, SlowOnlineLayouts, testing::ValuesIn(online_cases(1)),
                         name_of_online);

// Stops after the third update: while a generation is still in use, or with completions that were
// begun for later generations.
class OnlineResume : public testing::TestWithParam<void (*)(RunConfig&, TuneConfig&)> {};
TEST_P(OnlineResume, GoesOnAsIfUndisturbed) {
  const auto settings = [](RunConfig& run, TuneConfig& tune) {
    GetParam()(run, tune);
    run.train.steps = 6;
  };
  const Steps whole = run_online({.change = settings});
  const test::TemporaryDirectory directory(test::Storage::memory);
  const auto kept = [&](RunConfig& run, TuneConfig& tune) {
    settings(run, tune);
    run.checkpoint.directory = (directory.path() / "checkpoints").string();
  };
  int asked = 0;
  run_online({.change = kept, .stop_requested = [&] { return ++asked == 3; }}, directory.path());
  const Steps both = run_online({.change = kept}, directory.path());
  EXPECT_EQ(asked, 3);
  expect_same_steps(both, whole, 0);
}
void begin_earlier_and_reuse(RunConfig& run, TuneConfig& tune) {
  reuse_completions(run, tune);
  tune.max_staleness = 2;
}

INSTANTIATE_TEST_SUITE_P(Settings, OnlineResume,
                         testing::Values(reuse_completions, begin_earlier,
                                         begin_earlier_and_reuse));

TEST(OnlineResumeOverlap, GoesOnWithoutIt) {
  const auto settings = [](bool overlap) {
    return [=](RunConfig& run, TuneConfig& tune) {
      begin_earlier_and_reuse(run, tune);
      tune.overlap_sampling = overlap;
    };
  };
  const Steps whole = run_online({.change = settings(true)});
  const test::TemporaryDirectory directory(test::Storage::memory);
  const auto kept = [&](bool overlap) {
    return [&, overlap](RunConfig& run, TuneConfig& tune) {
      settings(overlap)(run, tune);
      run.checkpoint.directory = (directory.path() / "checkpoints").string();
    };
  };
  int asked = 0;
  run_online({.change = kept(true), .stop_requested = [&] { return ++asked == 2; }},
             directory.path());
  expect_same_steps(run_online({.change = kept(false)}, directory.path()), whole, 0);
}

// Completions in the checkpoint have rewards of other functions, and get new ones.
TEST(OnlineResumeRewards, AreAskedAnewWhereTheyAreOthers) {
  const test::TemporaryDirectory directory(test::Storage::memory);
  const auto rewarded = [&](std::vector<std::string> rewards) {
    return [&, rewards](RunConfig& run, TuneConfig& tune) {
      begin_earlier(run, tune);
      tune.reward = rewards;
      run.checkpoint.directory = (directory.path() / "checkpoints").string();
    };
  };
  int asked = 0;
  run_online({.change = rewarded({"length"}), .stop_requested = [&] { return ++asked == 2; }},
             directory.path());
  const Steps steps =
      run_online({.change = rewarded({"command:sed s/.*/7/", "length"})}, directory.path());
  EXPECT_EQ(steps.back().task_metrics.at("rewards/sed/mean"), 7);
}

// Returns the message of a run that is resumed after a file of another model's folder was changed.
std::string told_of_changed(const std::filesystem::path& changed, const OnlineRun& given,
                            const std::filesystem::path& directory) {
  OnlineRun run = given;
  run.change = [&](RunConfig& config, TuneConfig& tune) {
    given.change(config, tune);
    config.checkpoint.directory = (directory / "checkpoints").string();
  };
  int asked = 0;
  run.stop_requested = [&] { return ++asked == 1; };
  run_online(run, directory);
  if (!changed.empty()) std::ofstream(changed, std::ios::app) << "\n";
  testing::internal::CaptureStderr();
  run_online(run, directory);
  return testing::internal::GetCapturedStderr();
}

TEST(OnlineResumeModels, ThatHaveChangedAreNamed) {
  const test::TemporaryDirectory models(test::Storage::memory);
  const auto path = [&](const char* name) { return models / name; };
  const auto recursive = std::filesystem::copy_options::recursive;
  std::filesystem::copy(saved_model(sft()), path("model"), recursive);
  std::filesystem::copy(saved_model(sft()), path("teacher"), recursive);
  std::filesystem::copy(saved_model(reward()), path("judge"), recursive);
  std::filesystem::copy(saved_adapter(), path("adapter"), recursive);
  std::ofstream(path("judge/chat_template.jinja")) << "{{ messages[0].content }}";
  const auto rewarded = [&](RunConfig& run, TuneConfig& tune) {
    run.model = {.path = path("model").string()};
    tune.reward = {"length", "model:" + path("judge").string()};
    tune.beta = 0.1;
  };
  const auto adapted = [&](RunConfig& run, TuneConfig& tune) {
    rewarded(run, tune);
    run.adapter.kind = "lora";
  };
  const auto adapted_further = [&](RunConfig& run, TuneConfig& tune) {
    adapted(run, tune);
    run.adapter.resume_from = path("adapter").string();
  };
  const auto taught = [&](RunConfig& run, TuneConfig& tune) {
    run.model = {.path = path("model").string()};
    tune.teacher = path("teacher").string();
    tune.temperature = 1;
  };
  struct Case {
    const char* changed;
    const char* told;
    OnlineRun run;
  };
  const std::vector<Case> cases{
      {"judge/config.json", "judge\": the model there has changed", {.change = rewarded}},
      {"judge/chat_template.jinja", "judge\": the chat template there", {.change = rewarded}},
      {"model/config.json", "warning: model.path: the model there", {.change = rewarded}},
      {"model/config.json", "its files have changed since this", {.change = adapted}},
      {"adapter/adapter_config.json",
       "adapter.resume_from: the model there",
       {.change = adapted_further}},
      {"teacher/config.json", "warning: tune.teacher", {.method = &distill(), .change = taught}}};
  for (const Case& given : cases) {
    SCOPED_TRACE(given.changed);
    const test::TemporaryDirectory changed(test::Storage::memory), as_it_was(test::Storage::memory);
    const std::string told = told_of_changed(path(given.changed), given.run, changed.path());
    EXPECT_THAT(told, HasSubstr(given.told));
    const size_t first = told.find("the results will differ");
    EXPECT_EQ(told.find("the results will differ", first + 1), std::string::npos) << told;
    EXPECT_THAT(told_of_changed({}, given.run, as_it_was.path()),
                testing::Not(HasSubstr("the results will differ")));
  }
}

TEST(OnlineRefusals, OfOtherSettingsThanThoseOfTheCompletionsOfACheckpoint) {
  using Change = std::function<void(RunConfig&, TuneConfig&)>;
  const test::TemporaryDirectory directory(test::Storage::memory);
  const auto begun = [&](const Change& change) {
    return [&, change](RunConfig& run, TuneConfig& tune) {
      begin_earlier(run, tune);
      run.checkpoint.directory = (directory.path() / "checkpoints").string();
      tune.num_generations = 6;
      change(run, tune);
    };
  };
  int asked = 0;
  run_online({.change = begun([](RunConfig&, TuneConfig&) {}),
              .stop_requested = [&] { return ++asked == 2; }},
             directory.path());
  const std::vector<std::pair<const char*, Change>> changes{
      {"tune.num_generations = 4", [](RunConfig&, TuneConfig& t) { t.num_generations = 4; }},
      {"tune.max_staleness = 0", [](RunConfig&, TuneConfig& t) { t.max_staleness = 0; }},
      {"tune.num_iterations = 2", [](RunConfig&, TuneConfig& t) { t.num_iterations = 2; }},
      {"tune.max_completion_length = 5",
       [](RunConfig&, TuneConfig& t) { t.max_completion_length = 5; }},
      {"train.global_batch = 6", [](RunConfig& r, TuneConfig&) { r.train.global_batch = 6; }}};
  for (const auto& [message, change] : changes) {
    EXPECT_THAT([&] { run_online({.change = begun(change)}, directory.path()); },
                testing::ThrowsMessage<ConfigError>(HasSubstr(message)));
  }
}

TEST(OnlineStaleness, IsToldAndCorrected) {
  const Steps steps = run_online({.change = begin_earlier});
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[0].task_metrics.at("staleness/0"), 1);
  EXPECT_NEAR(steps[0].task_metrics.at("sampling/importance_sampling_ratio/mean"), 1, 1e-9);
  const auto& last = steps[4].task_metrics;
  EXPECT_GT(last.at("staleness/2"), 0.1);
  EXPECT_NEAR(last.at("staleness/0") + last.at("staleness/1") + last.at("staleness/2"), 1, 1e-12);
  EXPECT_GT(std::abs(last.at("sampling/importance_sampling_ratio/mean") - 1), 1e-5);
  EXPECT_GT(last.at(kSamplerDifference), 1e-6);
}

// With learning rate 0 all weights are the same: interrupted completions equal those that were
// sampled at once.
TEST(OnlineStaleness, ChangesNoCompletionOfTheSameWeights) {
  const auto unmoved = [](int64_t staleness) {
    return run_online({.change = [&](RunConfig& run, TuneConfig& tune) {
      begin_earlier(run, tune);
      run.optimizer.learning_rate = 0;
      tune.max_staleness = staleness;
    }});
  };
  const Steps at_once = unmoved(0), broken_off = unmoved(2);
  ASSERT_EQ(broken_off.size(), at_once.size());
  for (size_t i = 0; i < at_once.size(); ++i) {
    for (const char* name : {"reward", "completions/mean_length", "entropy"}) {
      EXPECT_NEAR(broken_off[i].task_metrics.at(name), at_once[i].task_metrics.at(name), 1e-9)
          << name;
    }
    EXPECT_NEAR(broken_off[i].loss, at_once[i].loss, 1e-9);
    EXPECT_LE(broken_off[i].task_metrics.at(kSamplerDifference), 1e-11);
  }
}

// The reference is a copy of the initial model: the KL divergence is 0 before the first update.
TEST(OnlineReference, OfACopyIsTheModelAsItBegan) {
  const Steps steps = run_online({.change = reuse_completions});
  EXPECT_EQ(steps[0].task_metrics.at("kl"), 0);
  EXPECT_GT(steps[3].task_metrics.at("kl"), 0);
}

TEST(OnlineRewards, ThatFailEndNoRun) {
  const Steps steps = run_online({.change = [](RunConfig&, TuneConfig& tune) {
    tune.reward = {"length", "command:exit 1"};
  }});
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[3].task_metrics.at("rewards/failures"), 4 * 12);  // steps x completions
  EXPECT_FALSE(steps[3].task_metrics.contains("rewards/exit/mean"));
}

// Without any reward a run would train on nothing to its end.
TEST(OnlineRewards, ThatAreNoneAtFirstEndTheRun) {
  const auto error_of = [](const std::string& reward) -> std::string {
    try {
      run_online({.change = [&](RunConfig&, TuneConfig& tune) { tune.reward = {reward}; }});
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of("command:exit 127"), HasSubstr("none of the first 12 completions"));
  EXPECT_THAT(error_of("command:exit 127"), HasSubstr("warnings above"));
  EXPECT_THAT(error_of("command:yes null | head -n 12"), HasSubstr("answered null"));
  EXPECT_THAT(error_of("command:echo 1"), HasSubstr("warnings above"));
}

Steps learn_letters(const TuningMethod* method, int64_t seed, int64_t steps,
                    int64_t staleness = 0) {
  return run_online({.method = method, .change = [&](RunConfig& run, TuneConfig& tune) {
                       reward_letters(run, tune);
                       run.precision.compute = "fp32";
                       run.train.seed = seed;
                       run.train.steps = steps;
                       run.train.global_batch = 48;
                       run.optimizer.learning_rate = 2e-2;
                       run.scheduler.name = "constant";
                       tune.beta = 0;
                       tune.max_staleness = staleness;
                       if (method == &ppo()) tune.num_generations = 1;
                     }});
}

class OnlineLearns : public testing::TestWithParam<std::tuple<const TuningMethod*, int64_t>> {};
TEST_P(OnlineLearns, WhatIsRewarded) {
  const auto [method, staleness] = GetParam();
  const Steps steps = learn_letters(method, /*seed=*/0, 60, staleness);
  EXPECT_LT(steps.front().task_metrics.at("reward"), 0.5);
  EXPECT_GT(steps.back().task_metrics.at("reward"), 0.9);
}
INSTANTIATE_TEST_SUITE_P(Methods, OnlineLearns,
                         testing::Values(std::tuple{&grpo(), 0}, std::tuple{&ppo(), 0}));
INSTANTIATE_TEST_SUITE_P(SlowMethods, OnlineLearns,
                         testing::Values(std::tuple{&grpo(), 1}, std::tuple{&rloo(), 0}));

class SlowOnlineLearns : public testing::TestWithParam<std::tuple<const TuningMethod*, int64_t>> {};
TEST_P(SlowOnlineLearns, WhatIsRewardedFromEachSeed) {
  const auto [method, seed] = GetParam();
  const Steps steps = learn_letters(method, seed, 150);
  double last = 0;
  for (auto step = steps.end() - 10; step != steps.end(); ++step) {
    last += step->task_metrics.at("reward") / 10;
  }
  EXPECT_LT(steps.front().task_metrics.at("reward"), 0.5);
  EXPECT_GT(last, 0.95);
}
INSTANTIATE_TEST_SUITE_P(SlowMethods, SlowOnlineLearns,
                         testing::Combine(testing::Values(&grpo(), &rloo(), &ppo()),
                                          testing::Range<int64_t>(1, 6)));

TEST(OnlineRewards, OfAModelAreTold) {
  const Steps steps = run_online({.change = reward_by_model});
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_NE(steps[0].task_metrics.at("rewards/judge/mean"), 0);
  EXPECT_GT(steps[0].task_metrics.at("rewards/judge/std"), 0);
  EXPECT_EQ(steps[3].task_metrics.at("rewards/failures"), 0);
}

// Rewards of an adapter with a score head equal those of its merged model.
TEST(OnlineRewards, OfAnAdapterAreThoseOfItsMergedModel) {
  const std::string adapter = saved_scoring_adapter();
  const test::TemporaryDirectory directory(test::Storage::memory);
  const std::filesystem::path merged = directory / "merged";
  models::ModelRequest request{.path = saved_model(sft())};
  request.labels = models::numbered_labels(1);
  checkpoint::write_merged_folder(models::with_adapter(models::resolve_model(request), adapter),
                                  merged, {});
  const auto told = [](const std::string& folder, int ranks) {
    const Steps steps =
        run_online({.ranks = ranks, .change = [&](RunConfig& run, TuneConfig& tune) {
                      tune.reward = {"length", "judge=model:" + folder};
                      run.parallel.tp = ranks;
                    }});
    EXPECT_EQ(steps.back().task_metrics.at("rewards/failures"), 0);
    return steps;
  };
  const Steps of_merged = told(merged.string(), 1);
  const std::string mean = "rewards/judge/mean";
  for (const int ranks : {1, 3}) {
    const Steps of_adapter = told(adapter, ranks);
    for (size_t i = 0; i < of_merged.size(); ++i) {
      EXPECT_NE(of_merged[i].task_metrics.at(mean), 0);
      EXPECT_NEAR(of_adapter[i].task_metrics.at(mean), of_merged[i].task_metrics.at(mean), 1e-9);
    }
  }
}

// A teacher may also be an adapter.
TEST(DistillationTeacher, IsAnAdapterOrItsMergedModel) {
  const test::TemporaryDirectory directory(test::Storage::memory);
  const std::filesystem::path merged = directory / "merged";
  checkpoint::write_merged_folder(
      models::with_adapter(models::resolve_model({.path = saved_model(sft())}), saved_adapter()),
      merged, {});
  const auto taught_by = [](const std::string& teacher, int ranks) {
    return run_online(
        {.method = &distill(), .ranks = ranks, .change = [&](RunConfig& run, TuneConfig& tune) {
           tune.teacher = teacher;
           tune.temperature = 1;
           run.parallel.tp = ranks;
         }});
  };
  const Steps expected = taught_by(merged.string(), 1);
  EXPECT_NE(expected.front().loss, taught_by(saved_model(sft()), 1).front().loss);
  for (const int ranks : {1, 3}) {
    expect_same_steps(taught_by(saved_adapter(), ranks), expected, kOnlineTolerance);
  }
}

// The adapter's base model is not a local folder, or is not named.
TEST(OnlineRefusals, OfAnAdapterAsARewardNameItsModel) {
  const test::TemporaryDirectory directory(test::Storage::memory);
  std::filesystem::copy(saved_scoring_adapter(), directory / "adapter",
                        std::filesystem::copy_options::recursive);
  const std::filesystem::path file = directory / "adapter" / "adapter_config.json";
  nlohmann::json config = nlohmann::json::parse(std::ifstream(file));
  for (const char* base : {"someone/some-model", ""}) {
    config["base_model_name_or_path"] = base;
    std::ofstream(file) << config;
    EXPECT_THAT(
        [&] {
          run_online({.change = [&](RunConfig&, TuneConfig& tune) {
            tune.reward = {"model:" + (directory / "adapter").string()};
          }});
        },
        testing::ThrowsMessage<ConfigError>(
            testing::AllOf(HasSubstr("tune.reward = \"model:"),
                           HasSubstr(fmt::format("base_model_name_or_path = \"{}\"", base)),
                           HasSubstr("--merge-adapter"))));
  }
}

TEST(OnlineRefusals, OfModelsNameTheFolder) {
  const auto refused = [](const std::string& reward) {
    return [reward] {
      run_online({.change = [&](RunConfig&, TuneConfig& tune) { tune.reward = {reward}; }});
    };
  };
  EXPECT_THAT(refused("model:" + saved_model(sft())),
              testing::ThrowsMessage<ConfigError>(testing::AllOf(
                  HasSubstr("step-000002"), HasSubstr("its model predicts tokens"))));
  EXPECT_THAT(refused("model:/nowhere"),
              testing::ThrowsMessage<ConfigError>(HasSubstr("tune.reward = \"model:/nowhere\"")));
}

TEST(DistillationRefusals, SayWhatWouldWork) {
  const auto refused = [](const std::function<void(RunConfig&, TuneConfig&)>& change) {
    RunConfig run;
    TuneConfig tune;
    set_defaults(distill(), run, tune);
    tune.teacher = "large";
    change(run, tune);
    try {
      validate(distill(), run, tune);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_EQ(refused([](RunConfig&, TuneConfig&) {}), "not refused");
  EXPECT_THAT(refused([](RunConfig&, TuneConfig& t) { t.teacher = ""; }),
              HasSubstr("give its folder"));
  EXPECT_THAT(refused([](RunConfig& r, TuneConfig&) { r.data.validation = {"x"}; }),
              HasSubstr("use a tune.lmbda below 1"));
}

TEST(TuneDefaults, HelpSaysTheLengthOfTheMethod) {
  const auto length_of = [](const TuningMethod* method) {
    RunConfig run;
    TuneConfig tune;
    set_defaults(*method, run, tune);
    return run.data.default_sequence_length;
  };
  EXPECT_THAT(length_of(&sft()), HasSubstr("at most 1,024"));
  EXPECT_THAT(length_of(&grpo()), HasSubstr("at most 512 + tune.max_completion_length"));
}

std::string refusal(const std::function<void(RunConfig&, TuneConfig&)>& change,
                    const TuningMethod* method = &grpo()) {
  RunConfig run;
  TuneConfig tune;
  set_defaults(*method, run, tune);
  tune.reward = {"accuracy"};
  change(run, tune);
  try {
    validate(*method, run, tune);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(OnlineRefusals, SayWhatWouldWork) {
  using R = RunConfig;
  using T = TuneConfig;
  EXPECT_EQ(refusal([](R&, T&) {}), "not refused");
  EXPECT_THAT(refusal([](R&, T& t) { t.reward = {}; }), HasSubstr("tune.reward is empty"));
  EXPECT_THAT(refusal([](R&, T& t) { t.reward = {"acuracy"}; }), HasSubstr("no such reward"));
  EXPECT_THAT(refusal([](R&, T& t) {
                t.reward_weights = {1, 2};
              }),
              HasSubstr("2 numbers for 1 rewards"));
  EXPECT_THAT(refusal([](R&, T& t) { t.num_generations = 5; }),
              HasSubstr("use train.global_batch = 10"));
  EXPECT_THAT(refusal([](R&, T& t) {
                t.reward = {"overlong"};
                t.max_completion_length = 10;
              }),
              HasSubstr("use at most 10"));
  EXPECT_THAT(refusal([](R&, T& t) { t.delta = 1.1; }),
              HasSubstr("must be above 1 + tune.epsilon_high"));
  EXPECT_THAT(refusal([](R&, T& t) {
                t.max_staleness = 1;
                t.dynamic_sampling = true;
              }),
              HasSubstr("use one of the two"));
  EXPECT_THAT(
      refusal([](R&, T& t) { t.importance_sampling_mode = ImportanceCorrection::token_mask; },
              &rloo()),
      HasSubstr("use sequence_truncate or sequence_mask"));
  EXPECT_THAT(refusal([](R&, T& t) {
                t.importance_sampling_mode = ImportanceCorrection::token_truncate;
                t.importance_sampling_clip_min = 4;
              }),
              HasSubstr("is above tune.importance_sampling_clip_max = 3"));
  EXPECT_THAT(refusal([](R&, T& t) { t.importance_sampling_clip_min = 0.5; }),
              HasSubstr("tune.importance_sampling_mode, which is none"));
  EXPECT_THAT(refusal([](R& r, T&) { r.experts.capacity_factor = 1; }),
              HasSubstr("experts.capacity_factor with tune"));
  EXPECT_THAT(refusal([](R& r, T&) { r.data.validation = {"x"}; }),
              HasSubstr("data.validation with tune grpo"));
  EXPECT_THAT(refusal(
                  [](R&, T& t) {
                    t.reward_clip_range = {1, 0};
                  },
                  &rloo()),
              HasSubstr("the lowest and the highest"));
  EXPECT_THAT(refusal([](R&, T& t) {
                t.loss_type = {"dapo", "grpo"};
              }),
              HasSubstr("supports one loss only"));
}

TEST(OnlineRefusals, OfLongPromptsNameTheLine) {
  EXPECT_THAT(
      [] {
        run_online({.change = [](RunConfig&, TuneConfig& tune) {
          tune.max_completion_length = 20;  // of 24 positions
        }});
      },
      testing::ThrowsMessage<ConfigError>(
          testing::AllOf(HasSubstr("prompts.jsonl:5"), HasSubstr("a prompt may have at most 4"))));
}

}  // namespace
}  // namespace colossal::tune
