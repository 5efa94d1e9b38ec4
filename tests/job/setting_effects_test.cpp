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
       {"train.micro_batch = 256", "4096 layers"}},
      {[](RunConfig& c) { c.data.mask_block = 32; },
       {"data.mask_block = 32", "reads texts, not images"}}};
  for (const Case& each : cases) {
    try {
      job_with(each, 1);
      ADD_FAILURE() << each.words[0] << " is accepted";
    } catch (const ConfigError& error) {
      for (const std::string& word : each.words) EXPECT_THAT(error.what(), HasSubstr(word));
    }
  }
}

// What is said about a model that reads images of 28 x 28 pixels in patches of 4.
std::string refusal_of_images(const std::function<void(RunConfig&)>& change, bool pretrains = true,
                              const std::string& family = "vit") {
  RunConfig config;
  config.model.preset = family + "-small";
  config.model.overrides = {{"image_size", 28}, {"patch_size", 4}};
  config.model.pretrains = pretrains;
  change(config);
  try {
    resolve_job(config, {.ranks = 1, .local_ranks = 1, .cores = 2});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(SettingEffects, WhatCannotBeOfImagesIsRefused) {
  const auto nothing = [](RunConfig&) {};
  for (const char* family : {"vit", "deit"}) {
    EXPECT_EQ(refusal_of_images(nothing, true, family), "");
    EXPECT_EQ(refusal_of_images(nothing, false, family), "");
  }
  EXPECT_EQ(refusal_of_images(nothing, false, "dinov2"), "");
  EXPECT_THAT(refusal_of_images(nothing, true, "dinov2"),
              AllOf(HasSubstr("family dinov2"), HasSubstr("Dinov2ForMaskedImageModeling"),
                    HasSubstr("vit or deit"), HasSubstr("colossal tune classify")));
  const auto block = [](int64_t pixels) {
    return [pixels](RunConfig& c) { c.data.mask_block = pixels; };
  };
  for (const int64_t pixels : {4, 8, 20}) EXPECT_EQ(refusal_of_images(block(pixels)), "");
  EXPECT_THAT(refusal_of_images(block(6)), AllOf(HasSubstr("data.mask_block = 6"),
                                                 HasSubstr("patch_size = 4"), HasSubstr("use 4")));
  EXPECT_THAT(refusal_of_images(block(28)),
              AllOf(HasSubstr("data.mask_block = 28"), HasSubstr("use data.mask_block = 4")));
  EXPECT_THAT(refusal_of_images([](RunConfig& c) { c.data.objective = "masked"; }),
              AllOf(HasSubstr("data.objective"), HasSubstr("reads images, not texts")));
  EXPECT_THAT(refusal_of_images([](RunConfig& c) {
                c.data.augment = {"flip", "mixup"};
              }),
              AllOf(HasSubstr("data.augment = \"mixup\""), HasSubstr("leave it out")));
  EXPECT_THAT(refusal_of_images([](RunConfig& c) { c.adapter.kind = "lora"; }),
              HasSubstr("adapter.kind = \"lora\""));
  for (const char* key : {"mask_block", "mask_probability"}) {
    const bool is_block = std::string_view(key) == "mask_block";
    const auto set = [&](RunConfig& c) {
      if (is_block) c.data.mask_block = 4;
      if (!is_block) c.data.mask_probability = 0.5;
    };
    EXPECT_THAT(refusal_of_images(set, /*pretrains=*/false),
                AllOf(HasSubstr(std::string("data.") + key), HasSubstr("classes of images")));
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
      {[](RunConfig& c) { c.data.mask_probability = 0.3; },
       {"data.mask_probability = 0.3", "the model is a decoder"},
       {"data.mask_probability"}},
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
