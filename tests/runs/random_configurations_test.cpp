// Random configurations of every kind, each trained, saved and resumed at another random layout,
// against one rank in fp64. A configuration that is refused is refused with another one that works.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <regex>

#include "colossal/base/error.h"
#include "colossal/report/metrics_log.h"
#include "tests/runs/configurations.h"
#include "tests/support/small_families.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/train_on_ranks.h"

namespace colossal::test {
namespace {

constexpr int64_t kSteps = 2, kResumedSteps = 3;

// Keys of run.toml and their values, as text.
using Settings = std::map<std::string, std::string>;

struct Configuration {
  std::string family;
  int ranks = 1;
  Settings numbers;  // what the losses depend on
  Settings layout;   // what they do not depend on

  std::string text() const {
    std::string all = fmt::format("{} --ranks={}", family, ranks);
    for (const Settings& settings : {numbers, layout}) {
      for (const auto& [key, value] : settings) all += fmt::format(" --{}={}", key, value);
    }
    return all;
  }
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : draws_(seed) {}

  Configuration configuration() {
    static const std::vector<std::string> families = family_names();
    Configuration made;
    made.family = of(families);
    made.numbers = {{"optimizer.name",
                     of<std::string>({"adamw", "adamw", "adamw", "adam", "sgd", "lion", "adan",
                                      "lamb", "lars", "adafactor", "came", "muon", "galore"})}};
    if (chance(0.4)) made.numbers["train.dropout"] = "0.2";
    if (chance(0.2)) made.numbers["data.separate_documents"] = "true";
    if (chance(0.2)) made.numbers["data.weights"] = "3,1";
    if (chance(0.2)) made.numbers["train.gradient_clip"] = of<std::string>({"0", "0.01"});
    if (made.family == "deepseek_v3" && chance(0.5)) made.numbers["experts.bias_rate"] = "0.01";
    if (has_experts(made.family) && chance(0.3)) {
      made.numbers["experts.balance_loss"] = "0.1";
      made.numbers["experts.balance_over"] = "sequence";  // others depend on the micro-batches
    }
    if (chance(0.1)) {
      made.numbers["optimizer.groups"] = R"([{pattern = "embed", learning_rate_scale = 0.5}])";
    }
    made.layout = layout(made.family, made.ranks);
    return made;
  }

  // Any settings that change no losses. ranks: set to how many they need.
  Settings layout(const std::string& family, int& ranks) {
    Settings made;
    const auto set = [&](const char* key, const auto& value) {
      made[key] = fmt::format("{}", value);
    };
    int pp = 1, sp = 1, tp = 1;
    if (chance(0.35)) set("parallel.pp", pp = of<int>({2, 2, 3}));
    if (chance(0.3)) {
      set("parallel.sp", sp = of<int>({2, 2, 3}));
      if (chance(0.5)) made["parallel.sp_mode"] = "ulysses";
    }
    if (chance(0.4)) {
      set("parallel.tp", tp = of<int>({2, 2, 3, 4}));
      if (tp == 4) made["parallel.tp_mode"] = of<std::string>({"1d", "2d", "2d", "2.5d", "3d"});
      if (chance(0.2)) made["parallel.tp_sequence"] = "false";
    }
    while (pp * sp * tp > 6) sp > 1 ? sp = 1 : pp = 1;
    if (pp == 1) made.erase("parallel.pp");
    if (sp == 1) made.erase("parallel.sp");
    if (sp == 1) made.erase("parallel.sp_mode");
    const int replicas = std::uniform_int_distribution<int>(1, 6 / (pp * sp * tp))(draws_);
    ranks = pp * sp * tp * (chance(0.7) ? replicas : 1);
    if (pp > 1 && chance(0.5)) {
      made["parallel.pp_schedule"] =
          of<std::string>({"gpipe", "zb-h1", "zb-h2", "interleaved", "zb-v", "dualpipe-v"});
    }
    if (ranks / (pp * tp) > 1 && chance(0.7)) {
      set("parallel.zero", of<int>({0, 1, 2, 3, 3}));
      if (chance(0.2)) set("parallel.zero_group", 2);
      if (chance(0.2)) made["parallel.accumulate"] = "full";
    }
    const double of_experts = has_experts(family) ? 0.4 : 0.01;
    if (ranks > 1 && chance(of_experts)) set("parallel.ep", 2);
    if (ranks > 3 && chance(of_experts)) set("parallel.expert_tp", 2);
    if (chance(0.5)) set("train.micro_batch", of<int>({1, 2, 3, 5}));
    if (chance(0.3)) made["memory.recompute"] = of<std::string>({"full", "selective", "1"});
    if (chance(0.3)) set("memory.table_rows", of<int>({7, 16, 100}));
    for (const char* kind : {"parameters", "gradients", "optimizer", "activations"}) {
      if (chance(0.15)) {
        made[fmt::format("memory.offload_{}", kind)] =
            of<std::string>({"host", "nvme", "{host = 0.5, nvme = 0.25}"});
      }
    }
    made["precision.compute"] = of<std::string>({"fp64", "fp64", "fp64", "fp32", "bf16"});
    if (chance(0.2)) made["data.cache"] = "cache";
    if (chance(0.1)) {
      made["memory.recompute"] = "auto";
      made["memory.device_budget"] = of<std::string>({"1MiB", "3MiB", "1GiB"});
    }
    return made;
  }

 private:
  static bool has_experts(const std::string& family) {
    return family.find("moe") != std::string::npos || family == "mixtral" || family == "gpt_oss" ||
           family.starts_with("deepseek");
  }
  bool chance(double share) { return std::uniform_real_distribution<>()(draws_) < share; }
  template <typename T>
  T of(const std::vector<T>& values) {
    return values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(draws_)];
  }

  std::mt19937_64 draws_;
};

// What runs of a configuration have shown, by step.
using Steps = std::map<int64_t, std::pair<double, double>>;  // loss, norm of the gradient

class Runs {
 public:
  Runs() {
    std::mt19937_64 draws(1);
    for (const char* name : {"a.txt", "b.txt"}) {
      std::ofstream file(folder_ / name);
      for (int word = 0; word < 900; ++word) {
        file << "w" << draws() % 50 << (draws() % 9 == 0 ? ".\n" : " ");
      }
    }
    std::ofstream lines(folder_ / "c.jsonl");
    for (int line = 0; line < 60; ++line) {
      lines << R"({"text": "line )" << draws() % 100 << R"( of )" << draws() % 1000 << "\"}\n";
    }
  }

  Job job_of(const Configuration& configuration, const std::string& checkpoints, int64_t steps) {
    RunConfig config;
    ConfigSchema schema;
    describe(schema, config);
    Settings all{{"model.path", model_of(configuration.family)},
                 {"data.train", fmt::format("{0}/a.txt,{0}/c.jsonl", folder_.path().string())},
                 {"data.tokenizer", "bytes"},
                 {"data.sequence_length", "12"},
                 {"train.global_batch", "12"},
                 {"train.threads", "1"},
                 {"train.seed", "5"},
                 {"scheduler.name", "constant"},
                 {"optimizer.learning_rate", "0.002"},
                 {"log.report", "false"}};
    for (const Settings& settings : {configuration.numbers, configuration.layout}) {
      for (const auto& [key, value] : settings) all[key] = value;
    }
    const std::string& optimizer = all.at("optimizer.name");
    if (optimizer != "sgd" && optimizer != "lion") all["optimizer.eps"] = "1e-6";
    all["train.steps"] = std::to_string(steps);
    all["checkpoint.directory"] = (folder_ / checkpoints).string();
    all["log.directory"] = (folder_ / (checkpoints + "-log")).string();
    if (all.contains("data.cache")) all["data.cache"] = (folder_ / "cache").string();
    all["memory.nvme_path"] = folder_.path().string();
    std::set<std::string> given;
    for (const auto& [key, value] : all) {
      schema.set(key, value);
      given.insert(key);
    }
    return resolve_job(
        config, {.ranks = configuration.ranks, .local_ranks = configuration.ranks, .cores = 2},
        given);
  }

  Steps train_job(const Job& job) {
    train_on_ranks(job);
    Steps steps;
    for (const auto& step :
         report::read_metrics(std::filesystem::path(job.config.log.directory) / "metrics.jsonl")) {
      steps[step.step] = {step.loss, step.grad_norm};
    }
    return steps;
  }

  std::string next_folder() { return fmt::format("run{}", count_++); }
  void remove(const std::string& folder) {
    std::filesystem::remove_all(folder_ / folder);
    std::filesystem::remove_all(folder_ / (folder + "-log"));
  }

  const Steps& reference(const Configuration& configuration) {
    const auto key = std::pair(configuration.family, configuration.numbers);
    const auto [found, is_new] = references_.try_emplace(key);
    if (is_new) {
      Configuration alone = configuration;
      alone.ranks = 1;
      alone.layout = {{"precision.compute", "fp64"}};
      const std::string folder = next_folder();
      found->second = train_job(job_of(alone, folder, kResumedSteps));
      remove(folder);
    }
    return found->second;
  }

 private:
  std::string model_of(const std::string& family) {
    nlohmann::json config = small_config(family);
    config["vocab_size"] = 311;  // more than the tokenizer's
    return write_config(folder_ / family, config);
  }

  TemporaryDirectory folder_;
  int count_ = 0;
  std::map<std::pair<std::string, Settings>, Steps> references_;
};

struct Counts {
  int equal = 0, failed = 0, refused = 0, without_nearest = 0;
};

class RandomConfigurations {
 public:
  explicit RandomConfigurations(uint64_t seed) : generator_(seed) {}

  Counts run(int count) {
    for (int i = 0; counts_.equal < count; ++i) {
      const Configuration configuration = generator_.configuration();
      SCOPED_TRACE(fmt::format("{}: {}", i, configuration.text()));
      try {
        check(configuration);
      } catch (const ConfigError& error) {
        ++counts_.refused;
        check_nearest(configuration, error.what());
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        ++counts_.failed;
      }
      if (counts_.failed > 20) break;
    }
    return counts_;
  }

 private:
  // Trains, saves, and goes on at another layout.
  void check(const Configuration& configuration) {
    const std::string folder = runs_.next_folder();
    const Job job = runs_.job_of(configuration, folder, kSteps);
    const Steps& expected = runs_.reference(configuration);
    compare(configuration, runs_.train_job(job), expected);
    for (int tries = 0; tries < 20; ++tries) {
      Configuration resumed = configuration;
      resumed.layout = generator_.layout(resumed.family, resumed.ranks);
      resumed.layout["precision.compute"] = configuration.layout.at("precision.compute");
      SCOPED_TRACE("resumed: " + resumed.text());
      try {
        const Job other = runs_.job_of(resumed, folder, kResumedSteps);
        compare(resumed, runs_.train_job(other), expected);
        break;
      } catch (const ConfigError&) {  // this layout is refused: the next one
      }
    }
    ++counts_.equal;
    runs_.remove(folder);
  }

  static double tolerance_of(const std::string& type) {
    return type == "fp64" ? 1e-9 : type == "fp32" ? 1e-4 : 2e-2;
  }

  static void compare(const Configuration& configuration, const Steps& found,
                      const Steps& expected) {
    const std::string& type = configuration.layout.at("precision.compute");
    const double tolerance = tolerance_of(type);
    EXPECT_FALSE(found.empty());
    for (const auto& [step, figures] : found) {
      const auto& [loss, norm] = expected.at(step);
      EXPECT_LE(std::abs(figures.first - loss), tolerance * std::abs(loss))
          << "loss of step " << step << ": " << figures.first << ", expected " << loss;
      EXPECT_LE(std::abs(figures.second - norm), 5 * tolerance * std::abs(norm))
          << "gradient norm of step " << step << ": " << figures.second << ", expected " << norm;
    }
  }

  // What a refusal names instead must work.
  void check_nearest(const Configuration& configuration, const std::string& message) {
    fmt::print("refused: {}\n  {}\n", configuration.text(), message);
    EXPECT_EQ(message.find("LibTorch"), std::string::npos) << message;
    const size_t place = message.find("; nearest: ");
    if (place == std::string::npos) {
      ++counts_.without_nearest;
      return;
    }
    std::string rest = message.substr(place + 11);
    rest = std::regex_replace(rest, std::regex(R"( \(dp = \d+\))"), "");
    for (size_t begin = 0; begin < rest.size();) {
      const size_t end = std::min(rest.find(", or ", begin), rest.size());
      try_nearest(configuration, rest.substr(begin, end - begin), message);
      begin = end + 5;
    }
  }

  void try_nearest(Configuration configuration, const std::string& change,
                   const std::string& message) {
    static const std::regex kSet(R"re(([a-z_.]+) = "?([^" ]+)"?)re"),
        kLeftOut(R"(([a-z_.]+) left out)"), kRanks(R"(--ranks=(\d+))");
    std::smatch match;
    for (auto it = std::sregex_iterator(change.begin(), change.end(), kSet);
         it != std::sregex_iterator(); ++it) {
      configuration.layout[(*it)[1]] = (*it)[2];
    }
    for (auto it = std::sregex_iterator(change.begin(), change.end(), kLeftOut);
         it != std::sregex_iterator(); ++it) {
      configuration.layout.erase((*it)[1]);
    }
    if (std::regex_search(change, match, kRanks)) configuration.ranks = std::stoi(match[1]);
    if (configuration.ranks > 12) return;
    const std::string folder = runs_.next_folder();
    try {
      runs_.train_job(runs_.job_of(configuration, folder, 1));
    } catch (const std::exception& error) {
      ADD_FAILURE() << message << "\nbut with " << change << ": " << error.what();
    }
    runs_.remove(folder);
  }

  Generator generator_;
  Runs runs_;
  Counts counts_;
};

// COLOSSAL_TEST_SEED: other configurations than usual.
uint64_t seed() {
  const char* given = std::getenv("COLOSSAL_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

void expect_all_equal(int count, uint64_t seed) {
  const Counts counts = RandomConfigurations(seed).run(count);
  fmt::print(
      "seed {}: {} trained and resumed, {} failed; {} refused, of which {} name others, which "
      "work\n",
      seed, counts.equal, counts.failed, counts.refused, counts.refused - counts.without_nearest);
}

TEST(RandomConfigurations, TrainAndResumeAsOneRankDoes) {
  expect_all_equal(15, 2);
}

TEST(SlowRandomConfigurations, TrainAndResumeAsOneRankDoes) {
  expect_all_equal(300, seed());
}

}  // namespace
}  // namespace colossal::test
