// A dry run executes every optimizer with every tier and feature, without reading a value.
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/plan/recorded_step.h"
#include "tests/runs/configurations.h"
#include "tests/support/small_families.h"
#include "tests/support/temporary_directory.h"

namespace colossal::test {
namespace {

// What changes which code a step runs.
const std::vector<Named>& features() {
  static const std::vector<Named> all{
      {"nothing"},
      {"recomputation", [](RunConfig& c) { c.memory.recompute = "full"; }},
      {"a selection recomputed", [](RunConfig& c) { c.memory.recompute = "selective"; }},
      {"micro-batches and dropout",
       [](RunConfig& c) {
         c.train.micro_batch = 2;
         c.train.dropout = 0.2;
       }},
      {"row blocks", [](RunConfig& c) { c.memory.table_rows = 10; }},
      {"whole gradients", [](RunConfig& c) { c.parallel.accumulate = "full"; }},
      {"moving router biases", [](RunConfig& c) { c.experts.bias_rate = 0.01; }},
      {"router losses",
       [](RunConfig& c) {
         c.experts.balance_loss = 0.1;
         c.experts.z_loss = 0.01;
       }},
      {"capacity", [](RunConfig& c) { c.experts.capacity_factor = 1.2; }},
      {"copies of experts", [](RunConfig& c) { c.parallel.expert_copies = 2; }},
      {"documents", [](RunConfig& c) { c.data.separate_documents = true; }},
  };
  return all;
}

// Records the step of the job's first and last rank. Returns false if the settings are refused.
bool record(const RunConfig& config, int ranks) {
  Job job;
  try {
    job = job_for(config, ranks);
  } catch (const ConfigError&) {
    return false;
  }
  for (const int rank : {0, ranks - 1}) {
    EXPECT_NO_THROW(EXPECT_GT(plan::record_step(job, rank).update_bytes, 0));
  }
  return true;
}

TEST(DryRuns, EveryOptimizerInEveryTier) {
  const TemporaryDirectory folder;
  const std::vector<std::string> families{"gpt2", "deepseek_v3", "t5", "gpt_oss"};
  size_t turn = 0;
  int count = 0;
  for (const Named& optimizer : optimizers()) {
    for (const Named& tier : tiers()) {
      for (int i = 0; i < 2; ++i, ++turn) {
        const Named& layout = layouts()[turn * 7 % layouts().size()];
        const std::string& family = families[turn % families.size()];
        SCOPED_TRACE(fmt::format("{}, {}, {}, {}", family, optimizer.name, tier.name, layout.name));
        RunConfig config = small_run(family, folder.path().string());
        config.precision.compute = types()[turn % types().size()];
        optimizer.change(config);
        tier.change(config);
        layout.change(config);
        count += record(config, layout.ranks);
      }
    }
  }
  EXPECT_GT(count, 60);
}

TEST(DryRuns, EveryFeatureAtEveryLayout) {
  const TemporaryDirectory folder;
  int count = 0;
  for (size_t feature = 0; feature < features().size(); ++feature) {
    for (size_t layout = 0; layout < layouts().size(); ++layout) {
      const bool of_experts = feature >= 6 && feature <= 9;
      const std::string family = of_experts || layout % 2 == 0 ? "deepseek_v3" : "llama";
      SCOPED_TRACE(
          fmt::format("{}, {}, {}", family, features()[feature].name, layouts()[layout].name));
      RunConfig config = small_run(family, folder.path().string());
      config.precision.compute = types()[(feature + layout) % types().size()];
      optimizers()[(feature + layout) % optimizers().size()].change(config);
      features()[feature].change(config);
      layouts()[layout].change(config);
      count += record(config, layouts()[layout].ranks);
    }
  }
  EXPECT_GT(count, 120);
}

TEST(SlowDryRuns, EveryFamilyWithEveryOptimizerTierAndFeature) {
  const TemporaryDirectory folder;
  size_t turn = 0;
  int count = 0, refused = 0;
  for (const std::string& family : family_names()) {
    for (const Named& optimizer : optimizers()) {
      for (const Named& tier : tiers()) {
        for (const Named& feature : features()) {
          const Named& layout = layouts()[++turn * 7 % layouts().size()];
          SCOPED_TRACE(fmt::format("{}, {}, {}, {}, {}", family, optimizer.name, tier.name,
                                   feature.name, layout.name));
          RunConfig config = small_run(family, folder.path().string());
          config.precision.compute = types()[turn % types().size()];
          optimizer.change(config);
          tier.change(config);
          feature.change(config);
          layout.change(config);
          ++(record(config, layout.ranks) ? count : refused);
        }
      }
    }
  }
  fmt::print("{} dry runs, {} refused\n", count, refused);
}

}  // namespace
}  // namespace colossal::test
