// Holds the search for the fastest layout against all layouts of its space, and against layouts
// that people have chosen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <set>

#include "colossal/base/error.h"
#include "colossal/plan/layout_space.h"
#include "colossal/plan/place_tiers.h"
#include "colossal/plan/plan.h"
#include "colossal/plan/strategy_search.h"

namespace colossal::test {
namespace {

using plan::ClusterSpecification;
using plan::Layout;
using plan::LayoutSpace;

// A layout may be faster than the chosen one by this much, by prediction.
constexpr double kTolerance = 0.02;

// A job of the kind that is drawn at random.
struct Drawn {
  RunConfig config;
  std::set<std::string> keys;
  Machine machine;
  ClusterSpecification cluster;
  std::string name;
};

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}

  template <class Value>
  Value one_of(const std::vector<Value>& values) {
    return values[engine_() % values.size()];
  }
  bool with_chance(double chance) { return static_cast<double>(engine_() % 1000) < 1000 * chance; }
  // Between two limits, evenly in its logarithm.
  double rate(double low, double high) {
    return low * std::pow(high / low, static_cast<double>(engine_() % 1000) / 1000);
  }

 private:
  std::mt19937 engine_;
};

nlohmann::json sizes_of(const std::string& preset, int64_t hidden, int64_t layers) {
  if (preset == "gpt2-tiny") {
    return {{"vocab_size", 512}, {"n_embd", hidden}, {"n_layer", layers}, {"n_head", 4}};
  }
  if (preset == "t5-tiny" || preset == "bert-tiny") return {{"vocab_size", 512}};
  nlohmann::json sizes{{"vocab_size", 512},           {"hidden_size", hidden},
                       {"num_hidden_layers", layers}, {"intermediate_size", 2 * hidden},
                       {"num_attention_heads", 4},    {"num_key_value_heads", 4}};
  if (preset == "mixtral-8x7b") sizes["num_local_experts"] = 4;
  return sizes;
}

// Draws a job. Some keys are given, so that what is left can all be predicted.
Drawn draw(unsigned seed, int most_ranks) {
  Draw random(seed);
  Drawn drawn;
  RunConfig& config = drawn.config;
  const auto preset = random.one_of<std::string>(
      {"gpt2-tiny", "llama-tiny", "mixtral-8x7b", "t5-tiny", "bert-tiny"});
  const auto hidden = random.one_of<int64_t>({64, 128, 256}),
             layers = random.one_of<int64_t>({2, 4, 6});
  config.model.preset = preset;
  config.model.overrides = sizes_of(preset, hidden, layers);
  config.data.sequence_length = random.one_of<int64_t>({32, 128, 512});
  config.train.global_batch = random.one_of<int64_t>({4, 6, 8, 12});
  config.precision.compute = random.one_of<std::string>({"bf16", "fp32"});
  config.parallel.strategy = "auto";
  std::vector<int> ranks{2, 3, 4, 6, 8};
  std::erase_if(ranks, [&](int number) { return number > most_ranks; });
  const int number = random.one_of(ranks);
  const auto give = [&](const char* key, double chance, const auto& set) {
    if (!random.with_chance(chance)) return;
    drawn.keys.insert(key);
    set();
  };
  give("parallel.tp_mode", 0.7, [] {});
  give("parallel.sp", 0.5, [] {});
  give("memory.recompute", 0.5, [] {});
  give("train.micro_batch", 0.4, [&] {
    config.train.micro_batch = random.one_of<int64_t>({1, 2});
  });
  give("parallel.pp_chunks", 0.3, [&] { config.parallel.pp_chunks = 1; });
  ClusterSpecification& cluster = drawn.cluster;
  cluster.hosts.ranks = random.one_of<int64_t>({2, 4, 8});
  const bool cpu = random.with_chance(0.3);
  cluster.hosts.cores = cpu ? random.one_of<int64_t>({2, 4, 8}) : 0;
  for (plan::ComputeRates* const rates : {&cluster.bf16, &cluster.fp32}) {
    *rates = {.products = random.rate(1e10, 1e14), .elements = random.rate(1e9, 1e12)};
  }
  cluster.device = {.operator_seconds = random.rate(1e-7, 1e-5),
                    .half_rate_size = random.rate(4, 128)};
  cluster.links = {.latency = random.rate(1e-6, 1e-4),
                   .bandwidth = random.rate(1e9, 1e11),
                   .network_latency = random.rate(1e-5, 1e-4),
                   .network_bandwidth = random.rate(1e8, 1e11),
                   .overlap = cpu ? 0 : random.one_of<double>({0, 0.5, 0.9})};
  drawn.machine = {.ranks = number,
                   .local_ranks = static_cast<int>(cluster.local_ranks(number)),
                   .cores = cpu ? static_cast<int>(cluster.hosts.cores) : number};
  if (random.with_chance(0.5)) {
    config.memory.device_budget = ByteSize{static_cast<int64_t>(random.rate(3e6, 3e8))};
    config.memory.host_budget = ByteSize{int64_t{1} << 40};
  }
  drawn.name = fmt::format("seed {}: {} {} x {}, sequences of {}, batch {}, {} ranks, {} a host{}",
                           seed, preset, layers, hidden, *config.data.sequence_length,
                           config.train.global_batch, number, *cluster.hosts.ranks,
                           config.memory.device_budget ? ", with a budget" : "");
  return drawn;
}

struct Predicted {
  double seconds = INFINITY;
  bool fits = false;
};

Predicted predict(const Job& job, const ClusterSpecification& cluster) {
  const plan::Plan made = plan::make_plan(job, &cluster);
  Predicted predicted{made.time->seconds, true};
  for (const plan::RankPlan& rank : made.ranks) predicted.fits &= fits_budgets(job, rank);
  return predicted;
}

// A job with a model of two towers, whose blocks have other sizes in each.
Drawn draw_towers(unsigned seed, int most_ranks) {
  Drawn drawn = draw(seed, most_ranks);
  const nlohmann::json images{{"hidden_size", 128},     {"intermediate_size", 256},
                              {"num_hidden_layers", 4}, {"num_attention_heads", 4},
                              {"image_size", 48},       {"patch_size", 8}};
  const nlohmann::json texts{{"hidden_size", 64},      {"intermediate_size", 512},
                             {"num_hidden_layers", 3}, {"num_attention_heads", 4},
                             {"vocab_size", 512},      {"eos_token_id", 256}};
  drawn.config.model = {.preset = "clip-vit-base-patch32",
                        .overrides = {{"vision_config", images}, {"text_config", texts}},
                        .pretrains = true};
  drawn.config.data.sequence_length.reset();
  drawn.name += " (two towers)";
  return drawn;
}

// Returns the number of layouts of the space.
int64_t expect_fastest(const Drawn& drawn) {
  SCOPED_TRACE(drawn.name);
  std::optional<plan::StrategySearch> found;
  std::string refusal;
  try {
    found = search_strategies(drawn.config, drawn.keys, drawn.machine, drawn.cluster,
                              [](const Job& job) { return job; });
  } catch (const ConfigError& error) {
    refusal = error.what();
  }
  Predicted of_choice{.fits = true};
  if (found) of_choice = predict(found->choices.front().job, drawn.cluster);
  EXPECT_TRUE(of_choice.fits);
  const double chosen = of_choice.seconds;
  const LayoutSpace space(drawn.config, drawn.keys, drawn.machine, drawn.cluster);
  double fastest = INFINITY;
  std::string settings;
  int64_t number = 0;
  for (Layout division : space.divisions()) {
    for (const std::string& recompute : space.recomputations()) {
      division.recompute = recompute;
      for (const Layout& layout : space.layouts_of(division)) {
        std::optional<Job> job;
        try {
          job = space.job(layout);
        } catch (const ConfigError&) {
          continue;
        }
        ++number;
        const Predicted predicted = predict(*job, drawn.cluster);
        if (!predicted.fits || predicted.seconds >= fastest) continue;
        fastest = predicted.seconds;
        settings.clear();
        for (const auto& [key, value] : space.settings(layout)) settings += key + "=" + value + " ";
      }
    }
  }
  std::string of_chosen;
  if (found) {
    for (const auto& [key, value] : found->choices.front().settings) {
      of_chosen += key + "=" + value + " ";
    }
  }
  if (fastest < INFINITY || found) {
    EXPECT_LE(chosen, fastest * (1 + kTolerance))
        << "fastest: " << settings << "\nchosen:  " << of_chosen << refusal;
  }
  return number;
}

TEST(FastestLayout, OfSomeJobs) {
  int64_t layouts = 0;
  for (unsigned seed = 0; seed < 6; ++seed) layouts += expect_fastest(draw(seed, 3));
  EXPECT_GT(layouts, 100);
}

TEST(FastestLayout, OfAModelOfTwoTowers) {
  int64_t layouts = 0;
  for (unsigned seed = 0; seed < 3; ++seed) layouts += expect_fastest(draw_towers(seed, 3));
  EXPECT_GT(layouts, 50);
}

TEST(SlowFastestLayout, OfManyModelsOfTwoTowers) {
  for (unsigned seed = 2000; seed < 2020; ++seed) expect_fastest(draw_towers(seed, 4));
}

TEST(SlowFastestLayout, OfManyJobs) {
  int64_t layouts = 0;
  for (unsigned seed = 1000; seed < 1200; ++seed) {
    layouts += expect_fastest(draw(seed, seed % 10 == 0 ? 8 : 4));
  }
  std::cout << "200 jobs, " << layouts << " layouts\n";
}

struct Known {
  const char* preset;
  int ranks;
  int64_t sequence, batch;
  std::vector<std::pair<const char*, const char*>> layout;  // that people have chosen
};

// Jobs on hosts of 8 H100, and layouts that are good by prediction.
TEST(SlowFastestLayout, IsNoSlowerThanKnownOnes) {
  const ClusterSpecification cluster = plan::read_cluster(
      std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) / "examples/clusters/h100.toml");
  const std::vector<Known> jobs{
      {"llama3.1-8b", 8, 8192, 64, {{"parallel.zero", "2"}, {"train.micro_batch", "1"}}},
      {"llama3.1-8b", 8, 8192, 64, {{"parallel.sp", "2"}, {"train.micro_batch", "1"}}},
      {"llama3.1-8b", 64, 8192, 512, {{"parallel.zero", "2"}, {"train.micro_batch", "1"}}},
      {"llama3.1-70b",
       64,
       8192,
       512,
       {{"parallel.pp", "8"},
        {"parallel.tp", "4"},
        {"memory.recompute", "selective"},
        {"train.micro_batch", "1"}}},
      {"bert-large", 8, 512, 2048, {{"train.micro_batch", "128"}}},
      {"mixtral-8x7b",
       64,
       4096,
       512,
       {{"parallel.pp", "4"},
        {"parallel.ep", "8"},
        {"parallel.pp_schedule", "interleaved"},
        {"parallel.pp_chunks", "4"},
        {"train.micro_batch", "1"}}},
      {"flan-t5-xxl", 16, 512, 512, {{"parallel.zero", "2"}, {"train.micro_batch", "8"}}},
      {"deepseek-v3",
       1024,
       4096,
       4096,
       {{"parallel.pp", "16"},
        {"parallel.ep", "64"},
        {"train.micro_batch", "1"},
        {"memory.recompute", "full"}}}};
  for (const Known& known : jobs) {
    RunConfig config;
    config.model.preset = known.preset;
    config.data.sequence_length = known.sequence;
    config.train.global_batch = known.batch;
    config.precision.compute = "bf16";
    config.memory.device_budget = cluster.hosts.memory;
    const Machine machine{.ranks = known.ranks, .local_ranks = 8, .cores = 8};
    RunConfig given = config;
    ConfigSchema schema;
    describe(schema, given);
    for (const auto& [key, value] : known.layout) schema.set(key, value);
    const Predicted by_hand = predict(resolve_job(given, machine), cluster);
    config.parallel.strategy = "auto";
    const plan::StrategySearch found =
        search_strategies(config, {}, machine, cluster, [](const Job& job) { return job; });
    const double chosen = predict(found.choices.front().job, cluster).seconds;
    std::cout << known.preset << " on " << known.ranks << ": " << chosen << " s, chosen in "
              << found.seconds << " s; by hand " << by_hand.seconds << " s\n";
    if (!by_hand.fits) continue;
    EXPECT_LE(chosen, by_hand.seconds) << known.preset << ", " << known.ranks;
  }
}

}  // namespace
}  // namespace colossal::test
