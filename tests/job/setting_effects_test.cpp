// Nothing that is asked for is ignored in silence.
#include "colossal/job/setting_effects.h"

#include <gmock/gmock.h>

#include <functional>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  std::function<void(RunConfig&)> change;
  std::vector<std::string> words;  // of what is said
  std::set<std::string> given = {};
};

Job job_with(const Case& given, int ranks) {
  RunConfig config;
  config.model.preset = "gpt2-tiny";
  config.train.steps = 10;
  given.change(config);
  return resolve_job(config, {.ranks = ranks, .local_ranks = ranks, .cores = 2}, given.given);
}

TEST(SettingEffects, WhatCannotBeIsRefused) {
  const std::vector<Case> cases{
      {[](RunConfig& c) { c.log.profile = 3; }, {"log.profile = 3", "log.directory"}},
      {[](RunConfig& c) { c.log.tensorboard = true; }, {"log.tensorboard", "log.directory"}},
      {[](RunConfig&) {}, {"log.report", "log.directory"}, {"log.report"}},
      {[](RunConfig& c) {
         c.log.profile = 3;
         c.log.directory = "log";
         c.train.steps = 4;
       },
       {"log.profile = 3", "train.steps = 4", "train.steps = 5"}},
      {[](RunConfig& c) { c.train.evaluate_every = 5; },
       {"train.evaluate_every = 5", "data.validation"}},
      {[](RunConfig& c) { c.checkpoint.every = 5; },
       {"checkpoint.every = 5", "checkpoint.directory"}},
      {[](RunConfig& c) { c.checkpoint.resume = "must"; },
       {"checkpoint.resume", "checkpoint.directory"}},
      {[](RunConfig& c) { c.scheduler.warmup_steps = 11; },
       {"scheduler.warmup_steps = 11", "train.steps = 10"}},
      {[](RunConfig& c) {
         c.data.train = {"a", "b"};
         c.data.weights = {1, 2, 3};
       },
       {"data.weights = [1, 2, 3]", "data.train has 2 entries"}},
      {[](RunConfig& c) {
         c.data.train = {"a", "b"};
         c.data.weights = {0, 0};
       },
       {"data.weights = [0, 0]", "all weights are 0"}},
      {[](RunConfig& c) { c.train.global_batch = int64_t{1} << 40; },
       {"train.global_batch = 1099511627776", "256 tokens", "use at most 16777216"}},
      {[](RunConfig& c) {
         c.model.overrides = {{"n_positions", 1 << 24}, {"n_embd", 1 << 20}, {"n_layer", 4096}};
         c.data.sequence_length = 1 << 24;
         c.train.global_batch = 256;
       },
       {"train.micro_batch = 256", "4096 layers"}}};
  for (const Case& each : cases) {
    try {
      job_with(each, 1);
      ADD_FAILURE() << each.words[0] << " is accepted";
    } catch (const ConfigError& error) {
      for (const std::string& word : each.words) EXPECT_THAT(error.what(), HasSubstr(word));
    }
  }
}

TEST(SettingEffects, WhatDoesNothingIsTold) {
  const std::vector<Case> cases{
      {[](RunConfig& c) { c.parallel.expert_copy_rows = 5; },
       {"parallel.expert_copy_rows = 5", "expert_copies is 0"},
       {"parallel.expert_copy_rows"}},
      {[](RunConfig& c) { c.parallel.tp_mode = "2d"; }, {"parallel.tp_mode", "parallel.tp is 1"}},
      {[](RunConfig& c) { c.parallel.tp_sequence = true; }, {"tp_sequence", "parallel.tp is 1"}},
      {[](RunConfig& c) { c.parallel.sp_mode = "ulysses"; }, {"sp_mode", "parallel.sp is 1"}},
      {[](RunConfig& c) { c.parallel.zero = 2; }, {"parallel.zero = 2", "one rank"}},
      {[](RunConfig& c) { c.parallel.accumulate = "full"; },
       {"parallel.accumulate", "parallel.zero is 0"}},
      {[](RunConfig& c) { c.memory.nvme_path = "/nvme"; }, {"nvme_path", "memory.offload_*"}},
      {[](RunConfig& c) { c.train.micro_batch = 17; },
       {"train.micro_batch = 17", "train.global_batch = 16"}},
      {[](RunConfig& c) {
         c.scheduler.name = "constant";
         c.scheduler.minimum_ratio = 0.1;
       },
       {"scheduler.minimum_ratio = 0.1", "scheduler.name"}},
      {[](RunConfig& c) {
         c.data.invalid = data::InvalidFiles::skip;
         c.data.format = data::FileFormat::text;
       },
       {"data.invalid", "data.tokenizer"}},
      {[](RunConfig& c) {
         c.data.train = {"a"};
         c.data.weights = {2};
       },
       {"data.weights", "data.train has one entry"}},
      {[](RunConfig& c) { c.data.format = data::FileFormat::text; },
       {"data.text_field = \"text\"", "data.format"},
       {"data.text_field"}},
      {[](RunConfig&) {}, {"checkpoint.keep = 2", "checkpoint.directory"}, {"checkpoint.keep"}},
      {[](RunConfig& c) { c.checkpoint.resume = "never"; },
       {"checkpoint.resume", "checkpoint.directory"}}};
  for (const Case& each : cases) {
    const Job job = job_with(each, 1);
    EXPECT_THAT(job.warnings, ElementsAre(AllOf(HasSubstr(each.words[0]), HasSubstr(each.words[1]),
                                                HasSubstr("has no effect"))));
  }
}

TEST(SettingEffects, OfARunThatUsesAllItsSettingsNothingIsSaid) {
  const Case full{[](RunConfig& c) {
    c.parallel.tp = 4;
    c.parallel.tp_mode = "2d";
    c.parallel.sp = 2;
    c.parallel.sp_mode = "ulysses";
    c.parallel.zero = 2;
    c.parallel.accumulate = "full";
    c.train.micro_batch = 2;
    c.memory.offload_optimizer = "nvme";
    c.memory.nvme_path = "/nvme";
    c.data.validation = {"text"};
    c.train.evaluate_every = 5;
    c.log.directory = "log";
    c.log.profile = 8;
    c.log.tensorboard = true;
    c.checkpoint.directory = "checkpoints";
    c.checkpoint.resume = "never";
    c.scheduler.warmup_steps = 10;
    c.scheduler.minimum_ratio = 0.1;
  }};
  EXPECT_THAT(job_with(full, 16).warnings, IsEmpty());
}

}  // namespace
}  // namespace colossal
