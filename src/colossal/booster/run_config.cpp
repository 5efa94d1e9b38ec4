#include "colossal/booster/run_config.h"

namespace colossal {
namespace {

// Beyond these a number is a slip, and products of such numbers would not fit 63 bits.
constexpr double kMostSteps = 1e10;
constexpr double kMostSequences = 1 << 24;
constexpr double kMostTokens = 1 << 24;
constexpr double kMostRanks = 1 << 20;
constexpr double kMostBytes = 0x1p60;
constexpr double kMostSeconds = 1e8;  // three years
constexpr double kMostThreads = 1024;

void describe_model(ConfigSchema& schema, models::ModelRequest& model) {
  schema.add("model.preset", &model.preset, "a model by name, with random weights");
  schema.add("model.path", &model.path,
             "a Hugging Face folder: config.json, and weights where it holds any",
             {.per_rank = true});
  schema.open_section("model", &model.overrides, "any field of config.json, overridden");
}

void describe_data(ConfigSchema& schema, DataConfig& data) {
  schema.add("data.train", &data.train, "files to learn from: paths or globs, ** for subfolders",
             {.per_rank = true});
  schema.add("data.validation", &data.validation, "files to evaluate on", {.per_rank = true});
  schema.add("data.tokenizer", &data.tokenizer,
             "\"bytes\", the path of a tokenizer.json, or \"model\": the one in model.path",
             {.unset = "\"model\" where model.path has one, else \"bytes\"", .per_rank = true});
  schema.add("data.sequence_length", &data.sequence_length, "inputs of a sample",
             {.unit = "tokens",
              .minimum = 1,
              .maximum = kMostTokens,
              .unset = "the model's positions, at most 256"});
  schema.add("data.separate_documents", &data.separate_documents,
             "attention sees nothing of another file; else all that is before it in its sample");
  schema.add("data.seed", &data.seed, "of the order of samples");
  schema.add("data.cache", &data.cache, "folder that keeps corpora tokenized; empty: in memory",
             {.per_rank = true});
  schema.add("data.invalid", &data.invalid,
             "files that are not UTF-8, for a tokenizer that needs it");
}

void describe_parallel(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add(
      "parallel.dp", &parallel.dp, "replicas",
      {.unit = "ranks", .minimum = 1, .maximum = kMostRanks, .unset = "what the ranks leave"});
  schema.add("parallel.pp", &parallel.pp,
             "ranks of a pipeline, each of which holds some of the layers",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanks});
  schema.add("parallel.pp_schedule", &parallel.pp_schedule,
             "in which order the ranks of a pipeline work on micro-batches: gpipe, 1f1b, "
             "interleaved, zb-h1, zb-h2, zb-v, v-half, v-min or dualpipe-v (docs/pipeline.md says "
             "which when), or a file with a schedule of your own",
             {.unset = "1f1b"});
  schema.add("parallel.pp_chunks", &parallel.pp_chunks,
             "stages that each rank of a pipeline holds; more make the bubble smaller and the "
             "messages more",
             {.unit = "stages", .minimum = 1, .maximum = 1024, .unset = "the schedule's"});
  schema.add(
      "parallel.pp_layers", &parallel.pp_layers,
      "the model's layers of each stage, in model order; auto evens out what stages compute, "
      "the head included",
      {.unit = "layers", .minimum = 1});
  schema.add("parallel.sp", &parallel.sp, "parts of a sequence",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanks});
  schema.add("parallel.tp", &parallel.tp, "parts of a tensor",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanks});
  schema.add(
      "parallel.tp_mode", &parallel.tp_mode,
      "how those are cut; 1d: one dim of each weight; 2d: weights and activations over q x q "
      "ranks; 2.5d: over tp_depth such squares; 3d: over q x q x q",
      {.choices = {"1d", "2d", "2.5d", "3d"}});
  schema.add("parallel.tp_depth", &parallel.tp_depth, "squares of tp_mode 2.5d",
             {.minimum = 1, .maximum = kMostRanks, .unset = "the least that leaves squares"});
  schema.add("parallel.tp_sequence", &parallel.tp_sequence,
             "tp_mode 1d: between products each rank holds its share of the tokens, not all: less "
             "memory, the same bytes forward, half as many again backward",
             {.unset = "true with tp_mode 1d"});
  schema.add("parallel.sp_mode", &parallel.sp_mode,
             "how attention sees a shared sequence; ring: keys and values of all ranks come round; "
             "ulysses: all of it, for some heads",
             {.choices = {"ring", "ulysses"}});
  schema.add("parallel.ep", &parallel.ep, "parts of the experts",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanks});
  schema.add("parallel.zero", &parallel.zero,
             "ZeRO stage: what is sharded over replicas (0 nothing, 1 optimizer state, 2 gradients "
             "too, 3 weights too)",
             {.unset = "1 with several replicas"});
  schema.add("parallel.zero_group", &parallel.zero_group,
             "neighbouring ranks of dp x sp that share out what zero shards; groups of so many "
             "hold the same: more memory, but weights travel within a group only",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanks, .choices = {"all"}});
  schema.add(
      "parallel.accumulate", &parallel.accumulate,
      "stages 2 and 3, with several micro-batches: gradients are summed in parts, and travel "
      "at each micro-batch, or full, and travel once",
      {.choices = {"sharded", "full"}});
  schema.add("parallel.backend", &parallel.backend, "what joins the ranks",
             {.choices = {"auto", "shm", "gloo", "nccl"}});
  schema.add("parallel.timeout", &parallel.timeout, "longest wait for a collective",
             {.minimum = 0.001, .maximum = kMostSeconds});
}

void describe_memory(ConfigSchema& schema, MemoryConfig& config) {
  schema.add("memory.recompute", &config.recompute,
             "activations that are computed again for the backward pass; selective: of norms and "
             "activation functions; full: of all layers but their inputs; a number: of so many "
             "layers; auto: as little as fits memory.device_budget",
             {.minimum = 0, .choices = {"none", "selective", "full", "auto"}});
  memory::add_table_rows_key(schema, &config.table_rows);
  schema.add("memory.device_budget", &config.device_budget,
             "most that the tensors of a rank may take, known before anything is allocated; a "
             "process takes some 150 MiB besides",
             {.minimum = 1,
              .unset = "this host's memory / local ranks; on a GPU no limit",
              .per_rank = true});
  schema.add(
      "memory.host_budget", &config.host_budget,
      "most of a rank's tensors that may rest on the host, known beforehand as well",
      {.minimum = 1,
       .maximum = kMostBytes,
       .unset = "on a CPU, what the tensors on the device leave of this host's memory / local "
                "ranks; on a GPU no limit",
       .per_rank = true});
  memory::add_offload_key(schema, "parameters", &config.offload_parameters, "weights",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "gradients", &config.offload_gradients, "sums of gradients",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "optimizer", &config.offload_optimizer,
                          "masters and moments, which are updated on the host,", /*or_auto=*/true);
  memory::add_offload_key(schema, "activations", &config.offload_activations,
                          "activations kept for the backward pass", /*or_auto=*/true);
  memory::add_nvme_path_key(schema, &config.nvme_path);
}

void describe_learning(ConfigSchema& schema, RunConfig& config) {
  schema.add("precision.compute", &config.precision.compute,
             "type of weights and activations; auto: bf16 where the CPU multiplies it, else fp32",
             {.choices = {"auto", "fp32", "bf16", "fp64"}});
  schema.add("precision.gradients", &config.precision.gradients,
             "type in which gradients accumulate and travel; auto: bf16 with one micro-batch, fp32 "
             "with more",
             {.choices = {"auto", "fp32", "bf16", "fp64"}});
  optim::OptimizerConfig& optimizer = config.optimizer;
  schema.add("optimizer.name", &optimizer.name, "update rule", {.choices = {"adamw"}});
  schema.add("optimizer.learning_rate", &optimizer.learning_rate, "peak", {.minimum = 0});
  schema.add("optimizer.weight_decay", &optimizer.weight_decay, "on parameters of two or more dims",
             {.minimum = 0});
  schema.add("optimizer.betas", &optimizer.betas, "decay of the two moments");
  schema.add("optimizer.eps", &optimizer.eps, "added to the root of the second moment",
             {.minimum = 0});
  schema.add("scheduler.name", &config.scheduler.name, "shape of the learning rate",
             {.choices = {"cosine", "linear", "constant"}});
  schema.add(
      "scheduler.warmup_steps", &config.scheduler.warmup_steps,
      "linear rise at the start: step n has n / warmup_steps of the peak, and the step after them "
      "all of it once more",
      {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add(
      "scheduler.minimum_ratio", &config.scheduler.minimum_ratio,
      "what the learning rate falls towards, as a part of the peak; as in transformers it would be "
      "reached one step after train.steps",
      {.minimum = 0, .maximum = 1});
}

void describe_train(ConfigSchema& schema, TrainConfig& train) {
  schema.add("train.steps", &train.steps, "updates in all, resumed ones included",
             {.unit = "steps", .minimum = 1, .maximum = kMostSteps});
  schema.add("train.global_batch", &train.global_batch, "samples of an update, over all ranks",
             {.unit = "sequences", .minimum = 1, .maximum = kMostSequences});
  schema.add("train.micro_batch", &train.micro_batch, "samples of a forward, on each replica",
             {.unit = "sequences",
              .minimum = 1,
              .maximum = kMostSequences,
              .unset = "a replica's whole share"});
  schema.add("train.gradient_clip", &train.gradient_clip, "largest global norm; 0: none",
             {.minimum = 0});
  schema.add("train.seed", &train.seed, "of initial weights and dropout");
  schema.add("train.dropout", &train.dropout, "all dropout probabilities",
             {.minimum = 0, .maximum = 0.999, .unset = "the model's"});
  schema.add("train.threads", &train.threads, "compute threads of each rank",
             {.minimum = 1,
              .maximum = kMostThreads,
              .unset = "cores / local ranks, at most OMP_NUM_THREADS where that is set",
              .per_rank = true});
  schema.add("train.evaluate_every", &train.evaluate_every,
             "between evaluations on data.validation; 0: only at the end",
             {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
}

void describe_output(ConfigSchema& schema, RunConfig& config) {
  schema.add(
      "checkpoint.directory", &config.checkpoint.directory,
      "where checkpoints go: a folder of this run alone, which all hosts share; empty: none are "
      "written");
  schema.add("checkpoint.every", &config.checkpoint.every,
             "between checkpoints; 0: only at the end",
             {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add("checkpoint.keep", &config.checkpoint.keep,
             "newest whole checkpoints of the run that stay; damaged ones neither count nor go",
             {.minimum = 1, .maximum = kMostSteps});
  schema.add(
      "checkpoint.resume", &config.checkpoint.resume,
      "from the newest whole checkpoint in the directory: if there is one, never (a directory "
      "that holds any is refused), or else fail",
      {.choices = {"auto", "never", "must"}});
  schema.add("log.directory", &config.log.directory,
             "where metrics.jsonl, report.html and events go; empty: none are written",
             {.per_rank = true});
  schema.add("log.every", &config.log.every, "between progress lines where there is no terminal",
             {.unit = "steps",
              .minimum = 1,
              .maximum = kMostSteps,
              .unset = "after 2 s, then ever more seldom, a minute at most",
              .per_rank = true});
  schema.add("log.tensorboard", &config.log.tensorboard, "also write TensorBoard events",
             {.per_rank = true});
  schema.add("log.report", &config.log.report,
             "also write report.html: now and then, and at the end", {.per_rank = true});
  schema.add("log.profile", &config.log.profile,
             "profiled, after the first two: time by layer and operator in profile.txt, a timeline "
             "for ui.perfetto.dev in trace-rank-N.json; 0: none",
             {.unit = "steps", .minimum = 0, .maximum = kMostSteps, .per_rank = true});
}

}  // namespace

void describe(ConfigSchema& schema, RunConfig& config) {
  describe_model(schema, config.model);
  describe_data(schema, config.data);
  describe_parallel(schema, config.parallel);
  describe_memory(schema, config.memory);
  describe_learning(schema, config);
  describe_train(schema, config.train);
  describe_output(schema, config);
}

}  // namespace colossal
