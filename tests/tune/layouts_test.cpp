// Every method at all kinds of layouts: same losses, gradient norms and metrics as on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "colossal/report/metrics_log.h"
#include "colossal/tune/methods/methods.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/train_on_ranks.h"
#include "tests/tune/saved_model.h"

namespace colossal::tune {
namespace {

constexpr int64_t kSteps = 4;
constexpr double kLayoutTolerance = 1e-9;

// Returns a line of training data; lengths of prompts and completions differ.
std::string line_of(const TuningMethod* method, int i) {
  const auto words = [](const char* word, int count) {
    std::string text;
    for (int n = 0; n < count; ++n) text += fmt::format("{}{} ", word, n);
    return text;
  };
  const std::string prompt = words("p", 1 + i % 3), good = words("g", 1 + i % 4);
  const std::string bad = words("b", 1 + (i * 7) % 3);
  if (method == &kto()) {
    return fmt::format(R"({{"prompt": "{}", "completion": "{}", "label": {}}})", prompt,
                       i % 3 == 0 ? bad : good, i % 3 != 0);
  }
  if (method == &classify()) {
    return fmt::format(R"({{"text": "{}", "text_pair": "{}", "label": {}, "tags": [{}]}})", prompt,
                       good, i % 3,
                       i % 4 == 0   ? ""
                       : i % 2 == 0 ? R"("b")"
                                    : R"("a", "c")");
  }
  if (method->has_pairs()) {
    return fmt::format(R"({{"prompt": "{}", "chosen": "{}", "rejected": "{}"}})", prompt, good,
                       bad);
  }
  return fmt::format(R"({{"prompt": "{}", "completion": "{}"}})", prompt, good);
}

// A method with the settings that change what it computes.
struct Variant {
  std::string name;
  const TuningMethod* method;
  std::function<void(TuneConfig&)> change = [](TuneConfig&) {};
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {"sft", &sft()},
      {"dft", &sft(), [](TuneConfig& c) { c.loss_type = {"dft"}; }},
      {"sft_packed", &sft(), [](TuneConfig& c) { c.packing = data::Packing::bfd; }},
      {"dpo", &dpo(),
       [](TuneConfig& c) {
         c.loss_type = {"sigmoid", "sft", "ipo"};
         c.loss_weights = {1, 0.5, 0.2};
         c.ld_alpha = 0.4;
       }},
      {"kto", &kto()},
      {"orpo", &orpo()},
      {"simpo", &simpo()},
      {"cpo", &cpo()},
      {"reward", &reward(), [](TuneConfig& c) { c.center_rewards_coefficient = 0.3; }},
      {"distill", &distill(),
       [](TuneConfig& c) {
         c.beta = 0.3;
         c.lmbda = 0;
         c.temperature = 0.8;
       }},
      {"distill_own", &distill(),
       [](TuneConfig& c) {
         c.beta = 1;
         c.lmbda = 0.6;  // with this seed, there are steps of both kinds
         c.max_completion_length = 11;
       }},
      {"draft_head", &draft_head()},
      {"classify", &classify()},
      {"classify_encoder", &classify(), [](TuneConfig& c) { c.label_field = "tags"; }},
      {"sft_dropout", &sft()},
      {"dpo_dropout", &dpo()},
      {"sft_t5", &sft()},
      {"sft_bart", &sft()},
      {"dpo_t5", &dpo()}};
  return all;
}

struct Layout {
  std::string name;
  int ranks = 1;
  std::function<void(RunConfig&)> change = [](RunConfig&) {};
};

void set_tensor(RunConfig& config, int64_t tp, const char* mode) {
  config.parallel.tp = tp;
  config.parallel.tp_mode = mode;
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {"micro_batches", 1, [](RunConfig& c) { c.train.micro_batch = 2; }},
      {"recompute", 1, [](RunConfig& c) { c.memory.recompute = "full"; }},
      {"host_tiers", 1,
       [](RunConfig& c) { c.memory.offload_parameters = c.memory.offload_optimizer = "host"; }},
      {"table_rows", 1, [](RunConfig& c) { c.memory.table_rows = 100; }},
      {"dp3", 3, [](RunConfig& c) { c.parallel.zero = 0; }},
      {"dp2_zero2", 2, [](RunConfig& c) { c.parallel.zero = 2; }},
      {"dp3_zero3", 3, [](RunConfig& c) { c.parallel.zero = 3; }},
      {"tp2", 2, [](RunConfig& c) { set_tensor(c, 2, "1d"); }},
      {"tp3_whole", 3,
       [](RunConfig& c) {
         set_tensor(c, 3, "1d");
         c.parallel.tp_sequence = false;
       }},
      {"2d", 4, [](RunConfig& c) { set_tensor(c, 4, "2d"); }},
      {"2halfd", 8, [](RunConfig& c) { set_tensor(c, 8, "2.5d"); }},
      {"3d", 8, [](RunConfig& c) { set_tensor(c, 8, "3d"); }},
      {"ring2", 2, [](RunConfig& c) { c.parallel.sp = 2; }},
      {"ulysses3", 3,
       [](RunConfig& c) {
         c.parallel.sp = 3;
         c.parallel.sp_mode = "ulysses";
       }},
      {"pp3", 3,
       [](RunConfig& c) {
         c.parallel.pp = 3;
         c.train.micro_batch = 2;
       }},
      {"pp2_zb_v_dp2", 4,
       [](RunConfig& c) {
         c.parallel.pp = 2;
         c.parallel.pp_schedule = "zb-h1";
         c.train.micro_batch = 1;
       }},
      {"dp3_sp2_tp2_zero3", 12, [](RunConfig& c) {
         c.parallel.sp = c.parallel.tp = 2;
         c.parallel.zero = 3;
       }}};
  return all;
}

std::vector<report::StepMetrics> run(const Variant& variant, const Layout& layout) {
  const test::TemporaryDirectory directory(test::Storage::memory);
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += line_of(variant.method, i) + "\n";
  RunConfig config;
  Tuning tuning{.method = variant.method, .config = {}};
  set_defaults(*variant.method, config, tuning.config);
  variant.change(tuning.config);
  if (variant.method == &distill()) tuning.config.teacher = saved_model(sft());
  config.model.preset = "gpt2-tiny";
  config.model.overrides = {
      {"n_layer", 3}, {"n_embd", 12}, {"n_head", 3}, {"vocab_size", 259}, {"n_positions", 40}};
  if (variant.method == &draft_head()) {
    config.model.preset.clear();
    config.model.overrides = nlohmann::json::object();
    config.model.path = saved_model(sft());
  }
  if (variant.method == &classify()) config.model.labels = {"a", "b", "c"};
  if (variant.name == "classify_encoder") {
    config.model.preset = "bert-tiny";
    config.model.overrides = {{"num_hidden_layers", 3},    {"hidden_size", 12},
                              {"num_attention_heads", 3},  {"vocab_size", 259},
                              {"intermediate_size", 20},   {"max_position_embeddings", 40},
                              {"hidden_dropout_prob", 0.1}};
    config.model.problem_type = problem_name(Problem::multi_label);
  }
  if (variant.name.ends_with("_dropout")) {
    config.model.overrides.update({{"embd_pdrop", 0.1}, {"attn_pdrop", 0.1}, {"resid_pdrop", 0.1}});
  }
  // Encoder-decoders, with dropout: sources and targets are padded otherwise in each micro-batch.
  if (variant.name.ends_with("_t5")) {
    config.model.preset = "t5-tiny";
    config.model.overrides = {{"num_layers", 2},   {"num_decoder_layers", 2},
                              {"d_model", 12},     {"num_heads", 3},
                              {"d_kv", 4},         {"d_ff", 20},
                              {"vocab_size", 259}, {"dropout_rate", 0.1}};
  }
  if (variant.name.ends_with("_bart")) {
    config.model.preset = "bart-tiny";
    config.model.overrides = {{"encoder_layers", 2},
                              {"decoder_layers", 2},
                              {"d_model", 12},
                              {"encoder_attention_heads", 3},
                              {"decoder_attention_heads", 3},
                              {"encoder_ffn_dim", 20},
                              {"decoder_ffn_dim", 20},
                              {"vocab_size", 259},
                              {"max_position_embeddings", 40},
                              {"dropout", 0.1}};
  }
  config.data.train = {directory.write("lines.jsonl", lines)};
  config.data.sequence_length = 40;
  config.train.steps = kSteps;
  config.train.global_batch = 6;
  config.optimizer.learning_rate = 1e-2;
  config.precision.compute = "fp64";
  config.log.directory = (directory / "log").string();
  config.log.report = false;
  layout.change(config);
  const Job job = resolve_job(config, {.ranks = layout.ranks, .local_ranks = layout.ranks});
  test::train_on_ranks(job, make_task(tuning));
  return report::read_metrics(directory / "log" / "metrics.jsonl");
}

const std::vector<report::StepMetrics>& alone(size_t variant) {
  static std::map<size_t, std::vector<report::StepMetrics>> results;
  const auto [found, is_new] = results.try_emplace(variant);
  if (is_new) found->second = run(variants()[variant], {.name = "alone"});
  return found->second;
}

void expect_near(double found, double expected, const std::string& what) {
  EXPECT_LE(std::abs(found - expected), kLayoutTolerance * std::max(1.0, std::abs(expected)))
      << what;
}

struct Case {
  size_t variant = 0, layout = 0;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return variants()[info.param.variant].name + "_" + layouts()[info.param.layout].name;
}

void expect_same(const Case& given) {
  const auto& expected = alone(given.variant);
  const auto found = run(variants()[given.variant], layouts()[given.layout]);
  ASSERT_EQ(expected.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(found.size(), expected.size());
  for (size_t step = 0; step < expected.size(); ++step) {
    TRACED_CASE(fmt::format("step {}", step + 1));
    expect_near(found[step].loss, expected[step].loss, "loss");
    expect_near(found[step].grad_norm, expected[step].grad_norm, "grad_norm");
    EXPECT_EQ(found[step].tokens, expected[step].tokens);
    ASSERT_EQ(found[step].task_metrics.size(), expected[step].task_metrics.size());
    for (const auto& [name, value] : expected[step].task_metrics) {
      expect_near(found[step].task_metrics.at(name), value, name);
    }
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (size_t variant = 0; variant < variants().size(); ++variant) {
    for (size_t layout = 0; layout < layouts().size(); ++layout) {
      // A draft head is a single block, which no pipeline can divide. It comes after a linear layer
      // that is not one of a pair, as tensor modes other than 1d need it.
      const std::string& name = layouts()[layout].name;
      const bool cuts = name.starts_with("pp") || name.ends_with("d");
      if (!cuts || variants()[variant].method != &draft_head()) {
        cases.push_back({variant, layout});
      }
    }
  }
  return cases;
}

// Returns about a tenth of all cases, among which each layout has at least one variant.
std::vector<Case> few_cases() {
  std::vector<Case> cases;
  for (const Case& each : all_cases()) {
    if ((each.layout + each.variant) % 10 == 0) cases.push_back(each);
  }
  return cases;
}

Case case_of(const std::string& variant, const std::string& layout) {
  const std::vector<Case> all = all_cases();
  return *std::ranges::find_if(all, [&](const Case& each) {
    return variants()[each.variant].name == variant && layouts()[each.layout].name == layout;
  });
}

class TuneLayouts : public testing::TestWithParam<Case> {};
TEST_P(TuneLayouts, EqualAlone) {
  expect_same(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Few, TuneLayouts, testing::ValuesIn(few_cases()), name_of);
// The scores of a sequence are summed over its ranks, also in the dry run that ZeRO 3 needs.
INSTANTIATE_TEST_SUITE_P(SummedScores, TuneLayouts,
                         testing::Values(case_of("classify", "dp3_sp2_tp2_zero3")), name_of);

class SlowTuneLayouts : public testing::TestWithParam<Case> {};
TEST_P(SlowTuneLayouts, EqualAlone) {
  expect_same(GetParam());
}
INSTANTIATE_TEST_SUITE_P(SlowAll, SlowTuneLayouts, testing::ValuesIn(all_cases()), name_of);

// The metrics are those of the method, and they change.
TEST(TuneMetrics, OfAPairwiseMethodAreTold) {
  const auto& steps = alone(3);
  EXPECT_EQ(steps[0].task_metrics.at("rewards/margins"), 0);
  EXPECT_NE(steps[3].task_metrics.at("rewards/margins"), 0);
  EXPECT_LT(steps[3].task_metrics.at("logps/chosen"), 0);
  EXPECT_THAT(alone(4)[0].task_metrics, testing::Contains(testing::Key("kl")));
}

class SlowDpoLearns : public testing::TestWithParam<int64_t> {};
TEST_P(SlowDpoLearns, WhichCompletionIsBetterFromEachSeed) {
  const auto steps =
      run({"dpo", &dpo()}, {.name = "seed", .ranks = 1, .change = [](RunConfig& config) {
                              config.train.seed = GetParam();
                              config.train.steps = 60;
                              config.precision.compute = "fp32";
                              config.scheduler.name = "constant";
                            }});
  EXPECT_EQ(steps.front().task_metrics.at("rewards/accuracies"), 0);
  double last = 0;
  for (auto step = steps.end() - 10; step != steps.end(); ++step) {
    last += step->task_metrics.at("rewards/accuracies") / 10;
  }
  EXPECT_GE(last, 0.95);
}
INSTANTIATE_TEST_SUITE_P(SlowSeeds, SlowDpoLearns, testing::Range<int64_t>(1, 6));

// A new head knows nothing: the first loss is that of a guess among three classes, or of each of
// the labels.
TEST(Classification, BeginsWithAGuessAndTellsHowOftenItIsRight) {
  for (const auto& [variant, guess] : {std::pair<size_t, double>{12, 3}, {13, 2}}) {
    const auto& steps = alone(variant);
    EXPECT_NEAR(steps.front().loss, std::log(guess), 0.05) << variants()[variant].name;
    const double accuracy = steps[0].task_metrics.at("accuracy");
    EXPECT_TRUE(accuracy > 0 && accuracy < 1) << accuracy;
  }
}

TEST(DraftHead, LearnsWhatTheModelSays) {
  const auto& steps = alone(11);
  EXPECT_LT(steps.back().loss, steps.front().loss);
  EXPECT_GT(steps.back().loss, 0);
}

TEST(DraftHead, RefusesLayoutsThatWouldCutIt) {
  EXPECT_THROW(run(variants()[11], layouts()[14]), ConfigError);
  RunConfig config;
  TuneConfig tune;
  set_defaults(draft_head(), config, tune);
  validate(draft_head(), config, tune);
  config.parallel.tp_mode = "2d";
  try {
    validate(draft_head(), config, tune);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("use parallel.tp_mode = \"1d\""));
  }
}

TEST(TuneMetrics, OfDistillationSayWhatWasLearnedFrom) {
  const auto& own = alone(10);
  std::set<double> kinds;
  for (const report::StepMetrics& step : own) {
    const double on_policy = step.task_metrics.at("on_policy");
    kinds.insert(on_policy);
    EXPECT_EQ(step.task_metrics.contains("completions/mean_length"), on_policy == 1);
  }
  EXPECT_EQ(kinds.size(), 2u);
  EXPECT_LT(alone(9).back().loss, alone(9).front().loss);
}

}  // namespace
}  // namespace colossal::tune
