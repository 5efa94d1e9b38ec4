// What all ranks of a job must have alike, and what may differ.
#include "colossal/training/agreement.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "colossal/base/error.h"
#include "colossal/comm/agreement.h"
#include "tests/support/run_ranks.h"

namespace colossal {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string difference_of(const std::function<void(RunConfig&)>& change) {
  RunConfig config;
  config.model.preset = "gpt2-tiny";
  config.checkpoint.directory = "checkpoints";
  const Machine machine{.ranks = 2, .local_ranks = 2, .cores = 2};
  const comm::Settings usual = common_settings(resolve_job(config, machine));
  change(config);
  const comm::Settings changed = common_settings(resolve_job(config, machine));
  return comm::describe_difference(usual, 1, changed);
}

TEST(CommonSettings, AreAllThatMakesTheNumbers) {
  EXPECT_THAT(difference_of([](RunConfig& c) { c.optimizer.learning_rate = 0.01; }),
              StartsWith("rank 1 has optimizer.learning_rate = 0.01, rank 0 has 0.0003: "));
  const std::map<std::string, std::function<void(RunConfig&)>> changes{
      {"train.steps = 7,", [](RunConfig& c) { c.train.steps = 7; }},
      {"train.seed = 7,", [](RunConfig& c) { c.train.seed = 7; }},
      {"train.dropout = 0.5,", [](RunConfig& c) { c.train.dropout = 0.5; }},
      {"train.micro_batch = 2,", [](RunConfig& c) { c.train.micro_batch = 2; }},
      {"train.gradient_clip = 2.0,", [](RunConfig& c) { c.train.gradient_clip = 2; }},
      {"data.seed = 7,", [](RunConfig& c) { c.data.seed = 7; }},
      {"data.sequence_length = 16,", [](RunConfig& c) { c.data.sequence_length = 16; }},
      {"checkpoint.every = 5,", [](RunConfig& c) { c.checkpoint.every = 5; }},
      {"model.n_layer = 2,", [](RunConfig& c) { c.model.overrides["n_layer"] = 2; }},
      // Before dp, and others that follow from it.
      {"parallel.tp = 2, rank 0 has 1, and parallel.dp, ", [](RunConfig& c) { c.parallel.tp = 2; }},
      {"parallel.backend = \"gloo\",", [](RunConfig& c) { c.parallel.world.backend = "gloo"; }},
      {"parallel.zero = 3,", [](RunConfig& c) { c.parallel.zero = 3; }}};
  for (const auto& [words, change] : changes) {
    EXPECT_THAT(difference_of(change), HasSubstr("rank 1 has " + words));
  }
}

TEST(CommonSettings, LeaveOutWhatAHostMayHaveOfItsOwn) {
  EXPECT_EQ(difference_of([](RunConfig& c) {
              c.data.train = {"/other/*.txt"};
              c.data.cache = "/scratch";
              c.log.directory = "/log";
              c.train.threads = 7;
              c.memory.nvme_path = "/nvme1";
              c.memory.device_budget = ByteSize{1 << 30};
            }),
            "");
}

TEST(CommonSettings, AreAsResolved) {
  EXPECT_EQ(difference_of([](RunConfig& c) {
              c.parallel.dp = 2;
              c.parallel.zero = 1;
              c.train.micro_batch = 8;
              c.data.sequence_length = 256;
              c.model.overrides["n_layer"] = 4;
            }),
            "");
}

TEST(RequireAgreement, SaysTheSameOnAllRanks) {
  test::run_ranks(3, [](comm::World& world) {
    const comm::Group all = world.group("dp", {0, 1, 2});
    EXPECT_NO_THROW(require_agreement({{"data.train", "9 tokens"}}, all));
    try {
      require_agreement({{"data.train", fmt::format("{} tokens", world.rank() == 1 ? 5 : 9)}}, all);
      ADD_FAILURE() << "accepted on rank " << world.rank();
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(),
                  StartsWith("rank 1 has data.train = 5 tokens, rank 0 has 9 tokens: "));
    }
  });
}

}  // namespace
}  // namespace colossal
