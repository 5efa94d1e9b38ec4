// The values of a run.toml, the configuration file of a training run: one struct for each section,
// with one field for each key, as the user gives it. The initial values are the defaults;
// describe() has the help text and the allowed values of each key. resolve_job() in job.h turns a
// RunConfig into a validated Job.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/base/units.h"
#include "colossal/comm/world.h"
#include "colossal/data/tokenize.h"
#include "colossal/job/precision.h"
#include "colossal/memory/tier_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/families.h"
#include "colossal/optim/optimizer.h"
#include "colossal/optim/schedule.h"

namespace colossal {

struct DataConfig {
  std::vector<std::string> train;  // files to train on: paths or patterns
  // How often each entry of `train` is drawn from, relative to the others. Empty: all files of
  // `train` are one source.
  std::vector<double> weights;
  std::vector<std::string> validation;  // files of the validation loss; empty: no evaluation
  data::FileFormat format = data::FileFormat::by_name;
  std::string text_field = "text";  // of a row: the field that holds the document
  // Whether a beginning-of-text token stands before each document; unset: as the tokenizer's
  // post-processor says.
  std::optional<bool> bos;
  std::optional<std::string> tokenizer;    // unset: the model's own if it has one, else "bytes"
  std::optional<int64_t> sequence_length;  // unset: the model's number of positions, at most 256
  // What an unset sequence_length means, for help texts; tune's methods have other defaults.
  std::string default_sequence_length = "the model's maximum length, at most 256";
  // "causal": predict the next token; "masked": predict masked tokens, each of which is masked with
  // probability mask_probability; "denoising": write a text of which spans, a share of
  // mask_probability, are missing (data/denoising.h). Models that read images have none: they
  // reconstruct a share of mask_probability of an image, in blocks of mask_block pixels
  // (data/image_masks.h). Unset: "causal" for decoders, "masked" for encoders, "denoising" for
  // encoder-decoders.
  std::optional<std::string> objective;
  std::optional<double> mask_probability;  // unset: 0.15, of images 0.6
  std::optional<int64_t> mask_block;       // unset: as resolve_masks() (mask_config.h) says
  bool separate_documents = false;         // true: attention does not cross documents of a sequence
  int64_t seed = 0;                        // of the order of samples
  std::string cache;                       // folder for tokenized files; empty: none
  // Of images: random changes of each training image: "none", or some of "random_crop", "flip",
  // "color_jitter", "mixup" and "cutmix".
  std::vector<std::string> augment{"none"};
  // What to do with invalid input, such as a jsonl line without a document: stop with an error, or
  // leave it out.
  data::InvalidFiles invalid = data::InvalidFiles::error;
};

struct ParallelConfig {
  // "manual", or "auto": the keys of the layout that the user has not set are chosen by a search
  // (plan/strategy_search.h), in which case the fields below have no meaning until it is done.
  std::string strategy = "manual";
  std::string cluster;  // file with the rates of the machines, for "auto"; empty: measured
  // The sizes of the axes. ep: number of ranks among which the experts of a layer are divided.
  // expert_tp: number of ranks that share an expert. ep and expert_tp add no ranks.
  std::optional<int64_t> dp;  // unset: ranks / (pp x sp x tp)
  int64_t pp = 1, sp = 1, tp = 1, ep = 1, expert_tp = 1;
  // expert_copies: maximum number of experts of a layer that are copied to all ranks of ep to
  // balance their work; 0: none. expert_copy_rows: the cost of a copy, in rows
  // (Strategy::expert_copy_rows).
  int64_t expert_copies = 0, expert_copy_rows = 64;
  std::string tp_mode = "1d";  // "1d", "2d", "2.5d" or "3d"
  // For 2.5d, where tp = q x q x tp_depth: number of q x q squares. Unset: the smallest that fits.
  std::optional<int64_t> tp_depth;
  // Whether the ranks of tp divide the tokens among them between linear layers
  // (Strategy::tp_sequence). true is possible for 1d only. Unset: true for 1d, else false.
  std::optional<bool> tp_sequence;
  std::string sp_mode = "ring";  // "ring" or "ulysses"
  // ZeRO stage; unset: in training 1 if dp x sp > 1, else 0; in an evaluation 0.
  std::optional<int64_t> zero;
  // "all", or the number of ranks in a shard group (Strategy::zero_group).
  std::variant<int64_t, std::string> zero_group = "all";
  // For ZeRO stages 2 and 3. "sharded": gradients are reduced after each micro-batch; "full": once
  // per step.
  std::string accumulate = "sharded";
  std::optional<std::string> pp_schedule;  // unset: 1f1b
  std::optional<int64_t> pp_chunks;  // stages of each rank; unset: the default of the schedule
  std::optional<std::vector<int64_t>> pp_layers;  // blocks of each stage; unset: balanced by cost
  comm::WorldKind world;                          // backend and device
  std::chrono::milliseconds timeout{300'000};     // how long a rank waits for other ranks
};

struct MemoryConfig {
  // "none", "selective", "full", "auto", or the number of layers to recompute whole.
  std::variant<int64_t, std::string> recompute = "none";
  // "none" (all on the device), "host", "nvme", "auto", or the fraction in each tier.
  memory::Offload offload_parameters = "none", offload_gradients = "none",
                  offload_optimizer = "none", offload_activations = "none";
  // Maximum number of rows of one parameter of a vocabulary table (Strategy::table_rows); 0: no
  // maximum.
  int64_t table_rows = 0;
  std::string nvme_path;  // folder of the tier NVMe; empty: none
  // Maximum bytes of a rank's tensors on the device, and of its tensors that are offloaded to the
  // host. Unset: no limit of its own. If the job trains on the CPU and at least one of the two is
  // unset, the sum of both kinds of bytes must also fit into the rank's share of this host's memory
  // (Job::memory_budget).
  std::optional<ByteSize> device_budget, host_budget;
};

struct ExpertConfig {
  // balance_loss: factor of the balance loss. balance_over: "sequence", "micro_batch" or "layers"
  // (nn::RouterLosses::Over).
  std::optional<double> balance_loss;       // unset: that of the model
  std::optional<std::string> balance_over;  // unset: that of the model, else "micro_batch"
  double z_loss = 0;                        // factor of the router z-loss; 0: off
  double bias_rate = 0;  // change of the routers' correction biases by a step; 0: none
  // Maximum number of tokens of a sequence that an expert accepts in training, as a multiple of the
  // number with perfect balance; 0: no maximum.
  double capacity_factor = 0;
  // Path of the routing.json of an earlier run: the rows of each expert, by which experts are
  // assigned to ranks. Empty: experts are assigned in order.
  std::string observed;
};

struct AdapterConfig {
  std::string kind = "none";  // "none", "lora" or "prefix"
  // `virtual_tokens` is for a prefix only. `initial`, `base` and `resume_from` are for LoRA and
  // prefixes. All other fields below are for LoRA only.
  int64_t virtual_tokens = 20;
  int64_t rank = 16;
  double alpha = 32;  // the adapter's output is scaled by alpha / rank
  double dropout = 0.05;
  // Regular expressions for the names of the modules that get an adapter. targets: of all layers
  // but stacks of experts; target_parameters: of stacks of experts. Both empty: all linear layers
  // of blocks except experts.
  std::vector<std::string> targets, target_parameters;
  bool rslora = false;               // true: scaled by alpha / sqrt(rank)
  std::string initial = "gaussian";  // "gaussian"; for LoRA also "pissa", for a prefix also "zeros"
  bool dora = false;                 // true: DoRA, which also trains the magnitude of each output
  // Exceptions to `rank` and `alpha`: entries "MODULES=NUMBER", where MODULES is a regular
  // expression as in `targets`. The first entry that matches a module applies to it.
  std::vector<std::string> rank_pattern, alpha_pattern;
  std::vector<std::string> modules_to_save;  // modules that are trained themselves, as in peft
  std::string base = "as_is";  // frozen weights: "as_is", or quantized to "int8" or "nf4"
  std::string resume_from;     // folder of the adapter to start with; empty: a new adapter
};

struct TrainConfig {
  int64_t steps = 1000;       // updates in all, also those before the run resumed
  int64_t global_batch = 16;  // sequences per step, over all replicas
  // Sequences per forward pass of a replica; unset: default_micro_batch() (pipeline_config.h),
  // which without pp is the replica's whole share of global_batch.
  std::optional<int64_t> micro_batch;
  double gradient_clip = 1.0;     // maximum norm of the gradients; 0: no clipping
  int64_t seed = 0;               // of initial weights and dropout
  std::optional<double> dropout;  // unset: that of the model
  // Threads per rank; unset: the host's cores divided by Machine::local_ranks, at least 1 and at
  // most Machine::max_threads.
  std::optional<int64_t> threads;
  int64_t evaluate_every = 0;      // steps between evaluations; 0: only at the end
  int64_t evaluate_sequences = 0;  // most sequences of an evaluation; 0: all of data.validation
  // Ends the run after this many evaluations, one after the other, that are not better than the
  // best by more than early_stopping_threshold; 0: never. CheckpointConfig has the metric.
  int64_t early_stopping = 0;
  double early_stopping_threshold = 0;
  // Prompts that are completed at each evaluation, to show what the model writes, and the most
  // tokens of a completion.
  std::vector<std::string> sample_prompts;
  int64_t sample_tokens = 64;
};

struct CheckpointConfig {
  std::string directory;  // empty: no checkpoints are saved
  int64_t every = 0;      // steps between checkpoints; 0: only at the end
  // Elastic runs: steps between checkpoints in the memory of the host; 0: none
  int64_t memory_every = 0;
  int64_t keep = 2;  // number of checkpoints to keep; older ones are removed; 0: all are kept
  // Number of checkpoints to keep in addition, those with the best value of best_metric: the
  // "lowest" or the "highest" (best_is).
  int64_t keep_best = 0;
  std::string best_metric = "validation_loss";
  std::string best_is = "lowest";
  // "auto": resume if there is a checkpoint; "never": start a new run; "must": resume, and fail if
  // there is no checkpoint.
  std::string resume = "auto";
};

// Number of steps of a process that are not profiled before the profile (log.profile) begins. These
// steps touch memory for the first time and do other work that is done only once.
inline constexpr int64_t kStepsBeforeProfile = 2;

struct LogConfig {
  // Folder of metrics.jsonl, report.html, profiles and all other files about the run. Empty: no
  // such files are written.
  std::string directory;
  std::optional<int64_t> every;  // steps between progress lines; unset: by time, see ProgressLine
  bool tensorboard = false;      // whether to write TensorBoard events
  bool report = true;            // whether to write report.html
  int64_t profile = 0;           // number of steps to profile; 0: none
  // Folders of an MLflow file store and of Weights & Biases' offline runs; empty: none.
  std::string mlflow, wandb;
  std::string project = "colossal";  // MLflow's experiment, W&B's project
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

// Adds every key of run.toml to `schema`, with its help text and allowed values. Reading a file by
// `schema` writes the values to `config`, which must outlive `schema`.
void describe(ConfigSchema& schema, RunConfig& config);

// Likewise adds the keys data.format, text_field, bos, cache and invalid only, for
// commands that read files as text but do not train.
void describe_text(ConfigSchema& schema, DataConfig& data);

}  // namespace colossal
