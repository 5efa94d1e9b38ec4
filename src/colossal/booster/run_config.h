// All keys of a run.toml, with their defaults. describe() has the help of each key.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/base/units.h"
#include "colossal/booster/precision.h"
#include "colossal/data/tokenize.h"
#include "colossal/memory/tier_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/families.h"
#include "colossal/optim/optimizer.h"
#include "colossal/optim/schedule.h"

namespace colossal {

struct DataConfig {
  std::vector<std::string> train;
  // How often each entry of `train` is drawn from, relative to the others. Empty: all files of
  // `train` are one source.
  std::vector<double> weights;
  std::vector<std::string> validation;
  data::FileFormat format = data::FileFormat::by_name;
  std::string text_field = "text";
  std::optional<std::string> tokenizer;    // unset: the model's own if it has one, else "bytes"
  std::optional<int64_t> sequence_length;  // unset: the model's number of positions, at most 256
  bool separate_documents = false;
  int64_t seed = 0;
  std::string cache;
  data::InvalidFiles invalid = data::InvalidFiles::error;
};

struct ParallelConfig {
  std::optional<int64_t> dp;  // unset: ranks / (pp x sp x tp)
  int64_t pp = 1, sp = 1, tp = 1, ep = 1, expert_tp = 1;
  int64_t expert_copies = 0, expert_copy_rows = 64;
  std::string tp_mode = "1d";
  std::optional<int64_t> tp_depth;  // unset: for 2.5d, the smallest that fits tp
  std::optional<bool> tp_sequence;  // unset: true if the mode supports it
  std::string sp_mode = "ring";
  std::optional<int64_t> zero;                            // unset: 1 if dp x sp > 1, else 0
  std::variant<int64_t, std::string> zero_group = "all";  // or the number of ranks in a group
  std::string accumulate = "sharded";
  std::optional<std::string> pp_schedule;         // unset: 1f1b
  std::optional<int64_t> pp_chunks;               // unset: the default of the schedule
  std::optional<std::vector<int64_t>> pp_layers;  // unset: balanced by cost
  std::string backend = "auto";
  std::chrono::milliseconds timeout{300'000};
};

struct MemoryConfig {
  std::variant<int64_t, std::string> recompute = "none";  // or the number of layers to recompute
  memory::Offload offload_parameters = "none", offload_gradients = "none",
                  offload_optimizer = "none", offload_activations = "none";
  int64_t table_rows = 0;
  std::string nvme_path;
  std::optional<ByteSize> device_budget, host_budget;  // unset: see Job
};

struct ExpertConfig {
  std::optional<double> balance_loss;       // unset: that of the model
  std::optional<std::string> balance_over;  // unset: that of the model, else "micro_batch"
  double z_loss = 0;
  double bias_rate = 0;
  double capacity_factor = 0;
  std::string observed;  // path of a routing.json; empty: none
};

struct AdapterConfig {
  std::string kind = "none";
  int64_t virtual_tokens = 20;
  int64_t rank = 16;
  double alpha = 32;
  double dropout = 0.05;
  std::vector<std::string> targets, target_parameters;  // empty: see adapters::choose_products()
  bool rslora = false;
  std::string initial = "gaussian";
  bool dora = false;
  std::vector<std::string> rank_pattern, alpha_pattern;  // each entry: "MODULES=NUMBER"
  std::vector<std::string> modules_to_save;
  std::string base = "as_is";
  std::string resume_from;
};

struct TrainConfig {
  int64_t steps = 1000;
  int64_t global_batch = 16;
  std::optional<int64_t> micro_batch;  // unset: see default_micro_batch()
  double gradient_clip = 1.0;
  int64_t seed = 0;
  std::optional<double> dropout;   // unset: that of the model
  std::optional<int64_t> threads;  // unset: this rank's part of the host's cores (see Machine)
  int64_t evaluate_every = 0;
};

struct CheckpointConfig {
  std::string directory;
  int64_t every = 0;
  int64_t keep = 2;
  std::string resume = "auto";
};

struct LogConfig {
  std::string directory;
  std::optional<int64_t> every;  // unset: at intervals of time (see ProgressLine)
  bool tensorboard = false;
  bool report = true;
  int64_t profile = 0;
};

struct RunConfig {
  models::ModelRequest model;
  DataConfig data;
  ParallelConfig parallel;
  MemoryConfig memory;
  PrecisionConfig precision;
  optim::OptimizerConfig optimizer;
  optim::ScheduleConfig scheduler;
  ExpertConfig experts;
  AdapterConfig adapter;
  TrainConfig train;
  CheckpointConfig checkpoint;
  LogConfig log;
};

// Adds every key of run.toml to `schema`. The targets are in `config`, which must outlive `schema`.
void describe(ConfigSchema& schema, RunConfig& config);

// Adds only the keys of [data] for reading files as text: format, text_field, cache, invalid.
void describe_text(ConfigSchema& schema, DataConfig& data);

}  // namespace colossal
