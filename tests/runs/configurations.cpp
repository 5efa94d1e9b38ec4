#include "tests/runs/configurations.h"

#include <filesystem>

#include "tests/support/small_families.h"

namespace colossal::test {
namespace {

Named tensor_mode(const char* mode, int ranks) {
  return {mode,
          [=](RunConfig& c) {
            c.parallel.tp = ranks;
            c.parallel.tp_mode = mode;
          },
          ranks};
}

}  // namespace

const std::vector<Named>& layouts() {
  static const std::vector<Named> all{
      {"alone"},
      {"dp 3", [](auto&) {}, 3},
      {"ZeRO 0", [](auto& c) { c.parallel.zero = 0; }, 2},
      {"ZeRO 2", [](auto& c) { c.parallel.zero = 2; }, 3},
      {"ZeRO 3", [](auto& c) { c.parallel.zero = 3; }, 3},
      {"groups of ZeRO 3",
       [](auto& c) {
         c.parallel.zero = 3;
         c.parallel.zero_group = 2;
       },
       4},
      {"tp 2", [](auto& c) { c.parallel.tp = 2; }, 2},
      {"tp 3, copied tokens",
       [](auto& c) {
         c.parallel.tp = 3;
         c.parallel.tp_sequence = false;
       },
       3},
      tensor_mode("2d", 4),
      tensor_mode("2.5d", 8),
      tensor_mode("3d", 8),
      {"2d with ZeRO 3",
       [](auto& c) {
         c.parallel.tp = 4;
         c.parallel.tp_mode = "2d";
         c.parallel.zero = 3;
       },
       8},
      {"ring", [](auto& c) { c.parallel.sp = 2; }, 2},
      {"Ulysses",
       [](auto& c) {
         c.parallel.sp = 3;
         c.parallel.sp_mode = "ulysses";
       },
       3},
      {"pp 2", [](auto& c) { c.parallel.pp = 2; }, 2},
      {"pp 2, tp 2, ZeRO 1",
       [](auto& c) {
         c.parallel.pp = c.parallel.tp = 2;
         c.parallel.zero = 1;
       },
       8},
      {"ep 2", [](auto& c) { c.parallel.ep = 2; }, 2},
      {"ep 2, expert_tp 2, ZeRO 3",
       [](auto& c) {
         c.parallel.ep = c.parallel.expert_tp = 2;
         c.parallel.zero = 3;
       },
       4},
  };
  return all;
}

const std::vector<Named>& tiers() {
  const auto all_in = [](const char* tier) {
    return [=](RunConfig& c) {
      c.memory.offload_parameters = c.memory.offload_gradients = tier;
      c.memory.offload_optimizer = c.memory.offload_activations = tier;
    };
  };
  static const std::vector<Named> all{
      {"device"},
      {"host", all_in("host")},
      {"nvme", all_in("nvme")},
      {"optimizer on the host", [](auto& c) { c.memory.offload_optimizer = "host"; }}};
  return all;
}

const std::vector<std::string>& types() {
  static const std::vector<std::string> all{"bf16", "fp32", "fp64"};
  return all;
}

const std::vector<Named>& optimizers() {
  static const std::vector<Named> all = [] {
    std::vector<Named> made;
    for (const char* name : {"adamw", "adam", "sgd", "lion", "adan", "lamb", "lars", "adafactor",
                             "came", "muon", "galore"}) {
      made.push_back({name, [=](RunConfig& c) { c.optimizer.name = name; }});
    }
    return made;
  }();
  return all;
}

RunConfig small_run(const std::string& family, const std::string& folder) {
  RunConfig config;
  config.model.path = write_config(folder, small_config(family));
  config.data.tokenizer = "bytes";
  config.data.sequence_length = 10;
  config.train.global_batch = 12;
  config.train.steps = 2;
  config.train.threads = 1;
  config.memory.nvme_path = std::filesystem::temp_directory_path();
  config.log.report = false;
  return config;
}

Job job_for(const RunConfig& config, int ranks) {
  return resolve_job(config, {.ranks = ranks, .local_ranks = ranks, .cores = 2});
}

}  // namespace colossal::test
