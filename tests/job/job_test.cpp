// Whole jobs are refused, or resolved, before anything is allocated.
#include "colossal/job/job.h"

#include <gmock/gmock.h>

#include <functional>
#include <regex>
#include <vector>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using testing::HasSubstr;

RunConfig tiny() {
  RunConfig config;
  config.model.preset = "gpt2-tiny";
  return config;
}

std::string refusal(const RunConfig& config, int ranks) {
  try {
    resolve_job(config, {.ranks = ranks, .local_ranks = ranks, .cores = 2});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ResolveJob, FillsInWhatWasLeftOpen) {
  const Job job =
      resolve_job(tiny(), {.ranks = 4, .local_ranks = 2, .cores = 6, .bf16_instructions = true});
  EXPECT_EQ(job.strategy.dp, 4);
  EXPECT_EQ(job.strategy.zero, 1);
  EXPECT_EQ(job.sequence_length, 256);
  EXPECT_EQ(job.share, 4);
  EXPECT_EQ(job.micro_batch, 4);
  EXPECT_EQ(job.threads, 3);
  EXPECT_EQ(resolve_job(tiny(), {.cores = 6, .max_threads = 2}).threads, 2);
  EXPECT_EQ(resolve_job(tiny(), {.cores = 2, .max_threads = 4}).threads, 2);
  EXPECT_EQ(job.precision, (Precision{at::kBFloat16, at::kFloat, at::kBFloat16}));
}

TEST(ResolveJob, ASharedSequenceIsARingUnlessToldOtherwise) {
  RunConfig config = tiny();
  config.parallel.sp = 2;
  const Machine machine{.ranks = 4, .local_ranks = 4, .cores = 2};
  EXPECT_EQ(resolve_job(config, machine).strategy.sequence_mode, SequenceMode::ring);
  config.parallel.sp_mode = "ulysses";
  EXPECT_EQ(resolve_job(config, machine).strategy.sequence_mode, SequenceMode::ulysses);
}

TEST(ResolveJob, ATensorModeNeedsNoMoreThanItsName) {
  RunConfig config = tiny();
  config.parallel.tp = 8;
  const Machine machine{.ranks = 16, .local_ranks = 16, .cores = 2};
  config.parallel.tp_mode = "3d";
  Strategy strategy = resolve_job(config, machine).strategy;
  EXPECT_EQ(strategy.tensor_mode, TensorMode::three_d);
  EXPECT_EQ(strategy.tensor_side(), 2);
  EXPECT_FALSE(strategy.tp_sequence);
  config.parallel.tp_mode = "2.5d";
  strategy = resolve_job(config, machine).strategy;
  EXPECT_EQ(strategy.tp_depth, 2);
  EXPECT_EQ(strategy.dp, 2);
  config.parallel.tp_mode = "1d";
  config.parallel.tp = 4;
  EXPECT_TRUE(resolve_job(config, machine).strategy.tp_sequence);
}

TEST(ResolveJob, PrecisionFollowsTheCpuAndAccumulation) {
  EXPECT_EQ(resolve_precision({}, false, 1), (Precision{at::kFloat, at::kFloat, at::kFloat}));
  EXPECT_EQ(resolve_precision({}, true, 2), (Precision{at::kBFloat16, at::kFloat, at::kFloat}));
  EXPECT_EQ(resolve_precision({.compute = "fp64"}, true, 2),
            (Precision{at::kDouble, at::kDouble, at::kDouble}));
  EXPECT_THROW(resolve_precision({.compute = "fp64", .gradients = "fp32"}, true, 1), ConfigError);
  EXPECT_THROW(resolve_precision({.compute = "fp32", .gradients = "fp64"}, true, 1), ConfigError);
}

TEST(ResolveJob, WhatIsWrongAtEveryLayoutIsToldFirst) {
  RunConfig config = tiny();
  config.model.preset = "t5-tiny";
  config.data.separate_documents = true;
  config.parallel.pp = 3;
  EXPECT_THAT(refusal(config, 4), HasSubstr("leave data.separate_documents out"));
}

TEST(ResolveJob, RefusalsNameTheNearestThatWorks) {
  RunConfig config = tiny();
  config.train.global_batch = 10;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: train.global_batch = 12"));
  config.train.global_batch = 11;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: train.global_batch = 12"));
  config.train.global_batch = 1;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: train.global_batch = 4"));
  config = tiny();
  config.parallel.pp = 3;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: parallel.pp = 4 (dp = 1)"));
  config = tiny();
  config.parallel.sp = 4;
  config.parallel.tp = 2;
  EXPECT_EQ(refusal(config, 8), "accepted");
  config.parallel.sp_mode = "ulysses";
  EXPECT_THAT(refusal(config, 8), HasSubstr("nearest: parallel.sp_mode = \"ring\""));
  config.parallel.sp = 2;
  EXPECT_EQ(refusal(config, 8), "accepted");
  config.data.sequence_length = 1;
  EXPECT_THAT(refusal(config, 8), HasSubstr("data.sequence_length = 2"));
  config = tiny();
  config.parallel.pp = 3;
  config.data.sequence_length = 1 << 20;  // another key that is wrong
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: parallel.pp = 4 (dp = 1)"));
  config = tiny();
  config.parallel.tp = 8;
  EXPECT_THAT(refusal(config, 16), HasSubstr("nearest: parallel.tp = 4 (dp = 4)"));
  config = tiny();
  config.parallel.zero = 4;
  EXPECT_THAT(refusal(config, 4), HasSubstr("nearest: parallel.zero = 3"));
  config = tiny();
  config.data.sequence_length = 2000;
  EXPECT_THAT(refusal(config, 1), HasSubstr("1024 positions"));
  EXPECT_EQ(refusal(tiny(), 4), "accepted");
}

struct Refused {
  std::string why;
  int ranks;
  std::function<void(RunConfig&)> set;
  std::vector<std::string> parts;  // of the message: what was asked, what would work
};

std::vector<Refused> refused_layouts() {
  using C = RunConfig&;
  return {
      {"tp zero", 4, [](C c) { c.parallel.tp = 0; }, {"parallel.tp = 0", "from 1"}},
      {"sp negative", 4, [](C c) { c.parallel.sp = -2; }, {"parallel.sp = -2", "from 1"}},
      {"dp zero", 4, [](C c) { c.parallel.dp = 0; }, {"parallel.dp = 0", "from 1"}},
      {"tp huge", 4, [](C c) { c.parallel.tp = 1 << 21; }, {"parallel.tp = 2097152", "to 1048576"}},
      {"a product beyond an int",
       4,
       [](C c) { c.parallel.tp = c.parallel.sp = 1 << 16; },
       {"sp 65536 x tp 65536 = 4294967296", "parallel.tp = 4 and parallel.sp = 1 (dp = 1)"}},
      {"the same with dp",
       4,
       [](C c) { c.parallel.dp = c.parallel.tp = c.parallel.sp = 1 << 16; },
       {"makes 281474976710656 ranks, but there are 4"}},
      {"no multiple of tp",
       4,
       [](C c) { c.parallel.tp = 3; },
       {"tp 3 = 3", "parallel.tp = 4 (dp = 1), or --ranks=3"}},
      {"no multiple of sp",
       4,
       [](C c) { c.parallel.sp = 3; },
       {"sp 3", "parallel.sp = 4 (dp = 1), or --ranks=3"}},
      {"no multiple of both",
       4,
       [](C c) { c.parallel.sp = c.parallel.tp = 3; },
       {"sp 3 x tp 3 = 9", "--ranks=9"}},
      {"more than the ranks",
       2,
       [](C c) { c.parallel.tp = 4; },
       {"tp 4", "parallel.tp = 2 (dp = 1), or --ranks=4"}},
      {"dp too small",
       8,
       [](C c) { c.parallel.dp = 2, c.parallel.tp = 2; },
       {"parallel.dp = 2", "nearest: parallel.dp = 4"}},
      {"dp that fits nothing",
       6,
       [](C c) { c.parallel.dp = 2, c.parallel.tp = 4; },
       {"makes 8 ranks, but there are 6", "parallel.tp = 3, or --ranks=8"}},
      {"pipeline",
       4,
       [](C c) { c.parallel.pp = 3; },
       {"not a multiple of pp 3", "parallel.pp = 4 (dp = 1)"}},
      {"experts of a model without any",
       4,
       [](C c) { c.parallel.ep = 2; },
       {"parallel.ep = 2", "gpt2", "no experts", "nearest: parallel.ep = 1"}},
      {"parts of experts of a model without any",
       4,
       [](C c) { c.parallel.expert_tp = 2; },
       {"parallel.expert_tp = 2", "no experts", "nearest: parallel.expert_tp = 1"}},
      {"more ranks than experts",
       16,
       [](C c) { c.model.preset = "mixtral-8x7b", c.parallel.ep = 16; },
       {"parallel.ep = 16", "8 experts for 16 ranks", "nearest: parallel.ep = 8"}},
      {"experts over ranks that do not divide the others",
       4,
       [](C c) { c.model.preset = "mixtral-8x7b", c.parallel.ep = 3; },
       {"parallel.ep = 3", "use ep = 1, 2 or 4", "parallel.ep = 4"}},
      {"copies of experts that all ranks have",
       4,
       [](C c) { c.model.preset = "mixtral-8x7b", c.parallel.expert_copies = 2; },
       {"parallel.expert_copies = 2", "use parallel.ep above 1"}},
      {"more of tp than heads",
       8,
       [](C c) { c.parallel.tp = 8; },
       {"parallel.tp = 8", "4 heads", "parallel.tp = 4 (dp = 2)"}},
      {"the same beside sp",
       16,
       [](C c) { c.parallel.tp = 8, c.parallel.sp = 2; },
       {"parallel.tp = 8", "parallel.tp = 4 (dp = 2)"}},
      {"the same, and Ulysses",
       16,
       [](C c) { c.parallel.tp = 8, c.parallel.sp = 2, c.parallel.sp_mode = "ulysses"; },
       {"parallel.tp = 8", "parallel.tp = 2 (dp = 4)"}},
      {"more of Ulysses than heads",
       8,
       [](C c) { c.parallel.sp = 8, c.parallel.sp_mode = "ulysses"; },
       {"parallel.sp = 8", "4 heads", "parallel.sp_mode = \"ring\""}},
      {"the same within tp",
       8,
       [](C c) { c.parallel.tp = 2, c.parallel.sp = 4, c.parallel.sp_mode = "ulysses"; },
       {"2 heads", "parallel.sp_mode = \"ring\""}},
      {"no square",
       6,
       [](C c) { c.parallel.tp = 6, c.parallel.tp_mode = "2d"; },
       {"parallel.tp = 6", "a square of ranks",
        "nearest: parallel.tp = 3 and parallel.tp_mode = \"1d\" (dp = 2)"}},
      {"no cube",
       16,
       [](C c) { c.parallel.tp = 16, c.parallel.tp_mode = "3d"; },
       {"parallel.tp = 16", "a cube of ranks", "parallel.tp = 8 (dp = 2)"}},
      {"no squares of that depth",
       8,
       [](C c) { c.parallel.tp = 8, c.parallel.tp_mode = "2.5d", c.parallel.tp_depth = 3; },
       {"parallel.tp = 8", "tp_depth = 3", "parallel.tp_depth left out"}},
      {"depth of 2d",
       8,
       [](C c) { c.parallel.tp = 8, c.parallel.tp_mode = "2d", c.parallel.tp_depth = 2; },
       {"parallel.tp_depth = 2", "tp_mode = \"2.5d\""}},
      {"depth 0",
       4,
       [](C c) { c.parallel.tp = 4, c.parallel.tp_mode = "2.5d", c.parallel.tp_depth = 0; },
       {"parallel.tp_depth = 0", "from 1"}},
      {"tokens shared in 2d",
       4,
       [](C c) { c.parallel.tp = 4, c.parallel.tp_mode = "2d", c.parallel.tp_sequence = true; },
       {"parallel.tp_sequence = true", "parallel.tp_sequence left out",
        "parallel.tp_mode = \"1d\""}},
      {"more columns than heads",
       64,
       [](C c) { c.parallel.tp = 64, c.parallel.tp_mode = "2d"; },
       {"parallel.tp = 64", "4 heads", "8 columns", "parallel.tp = 16 (dp = 4)"}},
      {"Ulysses of more than a column's heads",
       16,
       [](C c) {
         c.parallel.tp = 4, c.parallel.tp_mode = "2d";
         c.parallel.sp = 4, c.parallel.sp_mode = "ulysses";
       },
       {"parallel.sp = 4", "2 heads", "parallel.sp_mode = \"ring\""}},
      {"a sequence shorter than sp",
       8,
       [](C c) { c.parallel.sp = 8, c.data.sequence_length = 7; },
       {"parallel.sp = 8", "7 tokens", "data.sequence_length = 8"}},
      {"positions fewer than sp",
       2048,
       [](C c) { c.parallel.sp = 2048; },
       {"parallel.sp = 2048", "nearest: parallel.sp = 256 (dp = 8)"}},
      {"ZeRO 4", 4, [](C c) { c.parallel.zero = 4; }, {"parallel.zero = 4", "parallel.zero = 3"}},
      {"ZeRO -1",
       4,
       [](C c) { c.parallel.zero = -1; },
       {"parallel.zero = -1", "parallel.zero = 0"}},
      {"NVMe without a folder",
       1,
       [](C c) { c.memory.offload_optimizer = "nvme"; },
       {"memory.nvme_path", "\"host\""}},
      {"a share that is \"auto\"",
       1,
       [](C c) {
         c.memory.offload_optimizer = std::map<std::string, double>{{"auto", 0.5}};
       },
       {"memory.offload_optimizer", "\"auto\"", "host and nvme"}},
      {"a tier that is none",
       1,
       [](C c) {
         c.memory.offload_gradients = std::map<std::string, double>{{"disk", 1}};
       },
       {"memory.offload_gradients", "\"disk\"", "host and nvme"}},
      {"more than all of it",
       1,
       [](C c) {
         c.memory.offload_parameters = std::map<std::string, double>{{"host", 0.75}, {"nvme", 0.5}};
       },
       {"memory.offload_parameters", "host = 0.75, nvme = 0.5", "host = 0.5"}},
      {"more layers computed again than there are",
       1,
       [](C c) { c.memory.recompute = int64_t{5}; },
       {"memory.recompute = 5", "4 layers", "use 0 to 4"}},
      {"a batch for fewer replicas",
       32,
       [](C c) { c.parallel.tp = 2, c.train.global_batch = 8; },
       {"train.global_batch = 8", "dp = 16",
        "train.global_batch = 16, or parallel.tp = 4 (dp = 8)"}},
      {"no batch", 4, [](C c) { c.train.global_batch = 0; }, {"train.global_batch = 0", "1"}},
      {"no sequence",
       4,
       [](C c) { c.data.sequence_length = 0; },
       {"data.sequence_length = 0", "1 to 1024"}},
  };
}

TEST(ResolveJob, BadLayoutsAreRefusedWithWhatWouldWork) {
  const std::vector<Refused> all = refused_layouts();
  EXPECT_GE(all.size(), 20);
  for (const Refused& refused : all) {
    SCOPED_TRACE(refused.why);
    RunConfig config = tiny();
    refused.set(config);
    const std::string message = refusal(config, refused.ranks);
    for (const std::string& part : refused.parts) EXPECT_THAT(message, HasSubstr(part));
  }
}

// "parallel.tp = 3 (dp = 2) and train.global_batch = 12", as one would type it.
void apply(const std::string& way, RunConfig& config, int& ranks) {
  ConfigSchema schema;
  describe(schema, config);
  const std::regex change(R"((--ranks=|[a-z]+\.[a-z_]+(?: = | left out))([^ ]*))");
  for (std::sregex_iterator found(way.begin(), way.end(), change), end; found != end; ++found) {
    const std::string key = (*found)[1].str(), value = (*found)[2].str();
    if (key == "--ranks=") {
      ranks = std::stoi(value);
    } else if (key == "parallel.tp_depth left out") {
      config.parallel.tp_depth.reset();
    } else if (key == "parallel.tp_sequence left out") {
      config.parallel.tp_sequence.reset();
    } else {
      schema.set(key.substr(0, key.find(' ')),
                 value.starts_with('"') ? value.substr(1, value.size() - 2) : value);
    }
  }
}

TEST(ResolveJob, WhatIsSuggestedPassesTheWholeValidation) {
  int suggestions = 0;
  for (const int ranks : {1, 4, 5, 6, 7, 12, 64}) {
    for (const int tp : {1, 4, 5, 7, 8}) {
      for (const int sp : {1, 3}) {
        for (const char* mode : {"1d", "2d", "2.5d", "3d"}) {
          for (const int group : {0, 2}) {
            RunConfig config = tiny();
            config.train.global_batch = 12;
            config.parallel.tp = tp;
            config.parallel.sp = sp;
            config.parallel.tp_mode = mode;
            if (sp > 1) config.parallel.sp_mode = "ulysses";
            if (group > 0) config.parallel.zero_group = int64_t{group};
            const std::string message = refusal(config, ranks);
            const size_t begin = message.find("nearest: ");
            if (begin == std::string::npos) {
              // Of more than three settings to change, none is told.
              EXPECT_TRUE(message == "accepted" || group > 0) << message;
              continue;
            }
            std::string ways = message.substr(begin + 9);
            for (size_t end = 0; end != std::string::npos; ways = ways.substr(end + 5)) {
              end = ways.find(", or ");
              RunConfig changed = config;
              int other_ranks = ranks;
              apply(ways.substr(0, end), changed, other_ranks);
              EXPECT_EQ(refusal(changed, other_ranks), "accepted") << message;
              ++suggestions;
              if (end == std::string::npos) break;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(suggestions, 300);
}

TEST(ResolveJob, ProcessesTakeTheirPartOfTheHost) {
  RunConfig config = tiny();
  config.train.global_batch = 300;
  constexpr int64_t kGiB = int64_t{1} << 30;
  const auto on_host = [&](int ranks) {
    return resolve_job(config, {.ranks = ranks, .local_ranks = ranks, .memory_bytes = 24 * kGiB});
  };
  EXPECT_EQ(on_host(2).device_budget, 12 * kGiB - (128 << 20));
  EXPECT_EQ(on_host(2).memory_budget, 12 * kGiB - (128 << 20));
  try {
    on_host(300);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("300 ranks on this host leave no memory for tensors: it "
                                        "has 24.0 GiB, and each process takes some 128 MiB"));
    EXPECT_THAT(error.what(), HasSubstr("with 96 ranks, each would have as much again"));
  }
}

TEST(ResolveJob, KeysOfExpertsAreForModelsWithThem) {
  RunConfig config = tiny();
  config.experts.z_loss = 0.1;
  EXPECT_THAT(refusal(config, 1), HasSubstr("experts.*: the model (gpt2) has no experts"));
  config.model.preset = "mixtral-8x7b";
  EXPECT_EQ(refusal(config, 1), "accepted");
  config.experts.balance_over = "sequence";
  EXPECT_THAT(refusal(config, 1), HasSubstr("experts.balance_loss is 0"));
  config.experts.balance_loss = 0.1;
  const auto resolved = [&] {
    return resolve_job(config, {.cores = 2}).model.transformer.router_losses;
  };
  EXPECT_EQ(resolved(),
            (nn::RouterLosses{.balance = 0.1, .over = nn::RouterLosses::Over::sequence, .z = 0.1}));
  config.experts = {};
  config.model.overrides = {{"output_router_logits", true}, {"router_aux_loss_coef", 0.3}};
  EXPECT_EQ(resolved(), (nn::RouterLosses{.balance = 0.3, .over = nn::RouterLosses::Over::layers}));
  config.experts.bias_rate = 0.001;
  EXPECT_THAT(refusal(config, 1), HasSubstr("have no bias for choosing experts"));
}

// A field of config.json that a run overrides is the run's own mistake.
TEST(ResolveJob, AnOverriddenFieldIsNamedWhereItWasGiven) {
  RunConfig config = tiny();
  ConfigSchema schema;
  describe(schema, config);
  schema.set_flag("--model.n_layer=one");
  EXPECT_EQ(refusal(config, 1), "--model.n_layer=one: expected a whole number from 1 to 4096");
  schema.set_flag("--model.n_layer=2");
  schema.set_flag("--model.n_head=5");
  EXPECT_EQ(refusal(config, 1), "--model.n_head=5: n_embd = 256 is not a multiple of n_head = 5");
  schema.set_flag("--model.n_heda=5");
  EXPECT_THAT(refusal(config, 1), HasSubstr("--model.n_heda=5: no such key"));
}

// A rank that does not know its host's memory lifts no other rank's limit.
TEST(StricterLimit, ZeroIsNoLimit) {
  EXPECT_EQ(stricter_limit(5, 3), 3);
  EXPECT_EQ(stricter_limit(0, 3), 3);
  EXPECT_EQ(stricter_limit(5, 0), 5);
  EXPECT_EQ(stricter_limit(0, 0), 0);
}

}  // namespace
}  // namespace colossal
