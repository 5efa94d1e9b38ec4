#include "colossal/booster/run_config.h"

#include "colossal/booster/parallel_config.h"

namespace colossal {
namespace {

// Larger numbers are typing errors, and their products would not fit 63 bits.
constexpr double kMostSteps = 1e10;
constexpr double kMostSequences = 1 << 24;
constexpr double kMostTokens = 1 << 24;
constexpr double kMostRanks = 1 << 20;
constexpr double kMostBytes = 0x1p60;
constexpr double kMostThreads = 1024;

void describe_model(ConfigSchema& schema, models::ModelRequest& model) {
  schema.add("model.preset", &model.preset,
             fmt::format("Start from a built-in model, with random weights; give either this or "
                         "model.path. There are: {}.",
                         fmt::join(models::preset_names(), ", ")));
  schema.add(
      "model.path", &model.path,
      "Start from this Hugging Face folder: from its config.json, and from its weights where "
      "it holds any. Give either this or model.preset.",
      {.per_rank = true});
  schema.open_section("model", &model.overrides,
                      "any field of the model's config.json, to override it: n_layer = 6",
                      &model.override_places);
}

void describe_data(ConfigSchema& schema, DataConfig& data) {
  schema.add("data.train", &data.train,
             "The files to learn from: paths or patterns, in which ** matches any subfolders. "
             "Files that end in .gz or .zst are decompressed.",
             {.per_rank = true});
  schema.add("data.weights", &data.weights,
             "Mix the entries of data.train in these proportions, one number for each. Each entry "
             "is then a source of its own: it is drawn as often as its weight says, and begun "
             "again when it has been read through. Empty: all files are one source.",
             {.minimum = 0});
  schema.add("data.validation", &data.validation,
             "Files on which the loss is measured, at the end and every train.evaluate_every "
             "steps. Nothing is learned from them.",
             {.per_rank = true});
  schema.add("data.tokenizer", &data.tokenizer,
             "How text becomes tokens. \"bytes\": each byte is a token. A path: a tokenizer.json. "
             "\"model\": the tokenizer in model.path.",
             {.unset = "\"model\" where model.path has one, else \"bytes\"", .per_rank = true});
  schema.add("data.sequence_length", &data.sequence_length,
             "How many tokens a sequence (a sample) has. A model that learns from longer sequences "
             "sees further back; they take more memory.",
             {.unit = "tokens",
              .minimum = 1,
              .maximum = kMostTokens,
              .unset = "the model's positions, at most 256"});
  schema.add("data.separate_documents", &data.separate_documents,
             "true: a token sees only the tokens before it in its own document (a file, or a line "
             "of a jsonl file). false: it sees all tokens before it in its sequence.");
  schema.add("data.seed", &data.seed, "Seed of the order in which sequences are drawn.");
  describe_text(schema, data);
}

void describe_parallel(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.dp", &parallel.dp,
             "How many replicas of the model train, each on its share of the batch.",
             {.unit = "replicas",
              .minimum = 1,
              .maximum = kMostRanks,
              .unset = "all ranks / (pp x sp x tp)"});
  schema.add("parallel.pp", &parallel.pp,
             "How many ranks form a pipeline, each with some of the model's layers. Use it for "
             "models that are too large for one rank. It sends the least, so these ranks may be on "
             "different hosts.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanks});
  schema.add("parallel.pp_schedule", &parallel.pp_schedule,
             "The order in which the ranks of a pipeline work on micro-batches: gpipe, 1f1b, "
             "interleaved, zb-h1, zb-h2, zb-v, v-half, v-min or dualpipe-v, or a file with a "
             "schedule of your own. docs/pipeline.md says when to use which.",
             {.unset = "1f1b"});
  schema.add("parallel.pp_chunks", &parallel.pp_chunks,
             "How many stages each rank of a pipeline has. With more stages, ranks wait less and "
             "send more.",
             {.unit = "stages", .minimum = 1, .maximum = 1024, .unset = "the schedule's"});
  describe_pipeline_layers(schema, parallel);
  describe_sequence_ranks(schema, parallel);
  describe_tensor_ranks(schema, parallel);
  describe_expert_ranks(schema, parallel);
  describe_expert_copies(schema, parallel);
  schema.add(
      "parallel.zero", &parallel.zero,
      "ZeRO stage: what the ranks with the same parameters (dp x sp) divide among themselves. 0: "
      "nothing. 1: the optimizer's state. 2: gradients too. 3: weights too, which are then "
      "gathered for each use. Each stage takes less memory; only stage 3 always sends more.",
      {.unset = "1 where dp x sp > 1, else 0"});
  describe_zero_group(schema, parallel);
  schema.add(
      "parallel.accumulate", &parallel.accumulate,
      "With zero 2 or 3 and several micro-batches a step. sharded: each rank keeps its shard of "
      "the gradients, which travel after every micro-batch; takes the least memory. full: each "
      "rank keeps all gradients, which travel once a step; sends the least.",
      {.choices = {"sharded", "full"}});
  describe_backend(schema, parallel);
  describe_timeout(schema, parallel);
}

void describe_memory(ConfigSchema& schema, MemoryConfig& config) {
  schema.add(
      "memory.recompute", &config.recompute,
      "Which activations are computed again in the backward pass instead of being kept for it. "
      "That takes less memory and more time. selective: the results of norms and activation "
      "functions; costs little. full: all but the inputs of layers; costs about a third more work. "
      "A number: all of that many layers. auto: as little as fits memory.device_budget.",
      {.minimum = 0, .choices = {"none", "selective", "full", "auto"}});
  memory::add_table_rows_key(schema, &config.table_rows);
  schema.add("memory.device_budget", &config.device_budget,
             "The most memory that a rank's tensors may take on its device. A run that needs more "
             "is refused before it starts, with settings that would fit. A process takes about 128 "
             "MiB besides.",
             {.minimum = 1,
              .unset = "for train on a CPU this host's memory / local ranks, less those 128 MiB; "
                       "on a GPU and for plan no limit",
              .per_rank = true});
  schema.add(
      "memory.host_budget", &config.host_budget,
      "The most of a rank's tensors that may rest on the host (memory.offload_* = \"host\").",
      {.minimum = 1,
       .maximum = kMostBytes,
       .unset = "for train on a CPU what the device leaves of this host's memory / local "
                "ranks; on a GPU and for plan no limit",
       .per_rank = true});
  memory::add_offload_key(schema, "parameters", &config.offload_parameters, "weights",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "gradients", &config.offload_gradients, "sums of gradients",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "optimizer", &config.offload_optimizer,
                          "the optimizer's masters and moments (updated on the host)",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "activations", &config.offload_activations,
                          "activations for the backward pass", /*or_auto=*/true);
  memory::add_nvme_path_key(schema, &config.nvme_path);
}

void describe_learning(ConfigSchema& schema, RunConfig& config) {
  schema.add(
      "precision.compute", &config.precision.compute,
      "The type of weights and activations. auto: bf16 if the processor multiplies it, else fp32.",
      {.choices = {"auto", "fp32", "bf16", "fp64"}});
  schema.add("precision.gradients", &config.precision.gradients,
             "The type in which gradients are summed and sent. auto: that of compute, but fp32 "
             "with bf16 and several micro-batches a step.",
             {.choices = {"auto", "fp32", "bf16", "fp64"}});
  optim::OptimizerConfig& optimizer = config.optimizer;
  schema.add("optimizer.name", &optimizer.name, "The rule that updates the weights.",
             {.choices = {"adamw"}});
  schema.add("optimizer.learning_rate", &optimizer.learning_rate,
             "The highest learning rate, reached after the warm-up.", {.minimum = 0});
  schema.add("optimizer.weight_decay", &optimizer.weight_decay,
             "At each step a weight shrinks by this part of itself, times the learning rate. It "
             "applies to weights of two or more dims, not to biases and norms.",
             {.minimum = 0});
  schema.add("optimizer.betas", &optimizer.betas,
             "The decay rates of the running averages of gradients and of their squares: nearer to "
             "1, they change more slowly.");
  schema.add("optimizer.eps", &optimizer.eps,
             "Added to the root of the second average before it divides the first.",
             {.minimum = 0});
  schema.add("scheduler.name", &config.scheduler.name,
             "How the learning rate changes after the warm-up. cosine: it falls along half a "
             "cosine. linear: it falls along a line. constant: it stays.",
             {.choices = {"cosine", "linear", "constant"}});
  schema.add(
      "scheduler.warmup_steps", &config.scheduler.warmup_steps,
      "Over how many steps at the start the learning rate rises: step n has n / warmup_steps of "
      "the highest rate. The step after them has the highest rate once more.",
      {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add("scheduler.minimum_ratio", &config.scheduler.minimum_ratio,
             "What the learning rate falls towards, as a part of the highest. As in transformers, "
             "it would be reached one step after train.steps.",
             {.minimum = 0, .maximum = 1});
}

void describe_experts(ConfigSchema& schema, ExpertConfig& experts) {
  schema.add(
      "experts.balance_loss", &experts.balance_loss,
      "Of a model with experts: how much a loss counts that is smallest where all experts have "
      "as many tokens. It is added to the mean loss, and told as auxiliary_loss.",
      {.minimum = 0,
       .maximum = 1e6,
       .unset = "0; the model's router_aux_loss_coef where its output_router_logits is true"});
  schema.add("experts.balance_over", &experts.balance_over,
             "The tokens of which this loss is made. sequence: those of each sequence, layer by "
             "layer. micro_batch: those of a micro-batch of all replicas together, layer by layer. "
             "layers: the same, of all layers together, as transformers has it.",
             {.choices = {"sequence", "micro_batch", "layers"},
              .unset = "micro_batch; layers where the model asks for the loss"});
  schema.add("experts.z_loss", &experts.z_loss,
             "How much a loss counts that keeps the logits of routers small: for each layer the "
             "mean over tokens of the squared logarithm of the sum of their exponentials.",
             {.minimum = 0, .maximum = 1e6});
  schema.add(
      "experts.bias_rate", &experts.bias_rate,
      "By how much a step raises the routers' biases of experts that had fewer tokens than the "
      "mean, and lowers those of the others. The biases take part in choosing only. For models "
      "whose routers have them.",
      {.minimum = 0, .maximum = 1});
  schema.add(
      "experts.capacity_factor", &experts.capacity_factor,
      "How many tokens of a sequence an expert takes in training, as a multiple of what each would "
      "have if all had equally many; the others are dropped there, those of the smallest weights "
      "first, and told as router_dropped. That bounds an expert's work. 0: it takes all.",
      {.minimum = 0, .maximum = 1e6});
  schema.add("experts.observed", &experts.observed,
             "The routing.json that an earlier run of the model wrote into its log.directory: how "
             "many rows each expert had. With ep, ranks then get experts that had about equally "
             "many in all, and plans count with these rows. Empty: experts are divided as they are "
             "numbered, and plans take each to have as many rows as the others.");
}

void describe_adapter(ConfigSchema& schema, AdapterConfig& adapter) {
  schema.add(
      "adapter.kind", &adapter.kind,
      "lora: freeze the weights of model.path, and train a low-rank adapter beside each of its "
      "products instead. prefix: train keys and values that every layer sees before those of a "
      "text (prefix tuning). Both take a fraction of the memory; checkpoints are folders of peft.",
      {.choices = {"none", "lora", "prefix"}});
  schema.add("adapter.virtual_tokens", &adapter.virtual_tokens,
             "The tokens of a prefix: how much it can learn. They take as many of the model's "
             "positions.",
             {.minimum = 1, .maximum = 65536});
  schema.add("adapter.rank", &adapter.rank, "The rank of the adapters: how much they can learn.",
             {.minimum = 1, .maximum = 65536});
  schema.add("adapter.alpha", &adapter.alpha,
             "What an adapter adds is multiplied by alpha / rank, so that the learning rate need "
             "not change with the rank.",
             {.minimum = 1e-9, .maximum = 1e9});
  schema.add("adapter.dropout", &adapter.dropout,
             "The probability of dropout at the adapters' inputs.",
             {.minimum = 0, .maximum = 0.999});
  schema.add(
      "adapter.targets", &adapter.targets,
      "Which products have an adapter: names as in the model's files (q_proj), or regular "
      "expressions of whole names. Empty: all products of the blocks, experts in stacks left out.");
  schema.add(
      "adapter.target_parameters", &adapter.target_parameters,
      "Which stacks of experts have adapters, one for each expert: \"experts.gate_up_proj\", "
      "\"experts.down_proj\", or regular expressions of whole names. With these alone, no other "
      "product has one.");
  schema.add("adapter.rslora", &adapter.rslora,
             "true: multiply by alpha / sqrt(rank) instead, which suits large ranks.");
  schema.add(
      "adapter.initial", &adapter.initial,
      "What new adapters begin with. gaussian: A with normal numbers, B with zeros; pissa: both "
      "with "
      "the largest singular values and vectors of their weight, which keeps the rest (PiSSA). A "
      "checkpoint then has twice the rank, and fits the model as it is. Of a prefix: gaussian, or "
      "zeros.",
      {.choices = {"gaussian", "pissa", "zeros"}});
  schema.add(
      "adapter.dora", &adapter.dora,
      "true: train the magnitude of each output as well, and only directions by the low-rank "
      "product (DoRA).");
  schema.add("adapter.rank_pattern", &adapter.rank_pattern,
             "Other ranks for some products: entries MODULES=RANK, with names as in "
             "adapter.targets, such as \"down_proj=8\". The first that fits counts.");
  schema.add("adapter.alpha_pattern", &adapter.alpha_pattern,
             "Other values of alpha for some products, in the same way.");
  schema.add(
      "adapter.modules_to_save", &adapter.modules_to_save,
      "Modules that are trained as they are beside the adapters, and saved with them: names as "
      "in the model's files, such as \"lm_head\" or a new \"score\".");
  schema.add(
      "adapter.base", &adapter.base,
      "How the frozen weights of the blocks' products are held. as_is: in precision.compute; int8: "
      "8.25 bits each; nf4: 4.13 bits each, as QLoRA has them. Products compute with the numbers "
      "that these stand for.",
      {.choices = {"as_is", "int8", "nf4"}});
  schema.add("adapter.resume_from", &adapter.resume_from,
             "Begin with the adapter in this folder, with its rank, alpha and targets, instead of "
             "with a new one.",
             {.per_rank = true});
}

void describe_train(ConfigSchema& schema, TrainConfig& train) {
  schema.add("train.steps", &train.steps,
             "Train until the model has had this many updates, those before a checkpoint from "
             "which the run goes on included.",
             {.unit = "steps", .minimum = 1, .maximum = kMostSteps});
  schema.add("train.global_batch", &train.global_batch,
             "How many sequences an update learns from, over all ranks. dp must divide it.",
             {.unit = "sequences", .minimum = 1, .maximum = kMostSequences});
  schema.add("train.micro_batch", &train.micro_batch,
             "How many of these sequences a replica passes through the model at once. Fewer take "
             "less memory. The gradients of a step's micro-batches are summed.",
             {.unit = "sequences",
              .minimum = 1,
              .maximum = kMostSequences,
              .unset = "all that a replica has"});
  schema.add("train.gradient_clip", &train.gradient_clip,
             "Scale a step's gradients down to this norm, over all parameters, if theirs is "
             "larger. 0: never.",
             {.minimum = 0});
  schema.add("train.seed", &train.seed, "Seed of initial weights and of dropout.");
  schema.add("train.dropout", &train.dropout,
             "Replaces every probability of dropout in the model's config.json.",
             {.minimum = 0, .maximum = 0.999, .unset = "the model's"});
  schema.add("train.threads", &train.threads, "How many threads each rank computes with.",
             {.minimum = 1,
              .maximum = kMostThreads,
              .unset = "cores / local ranks, at most OMP_NUM_THREADS where that is set",
              .per_rank = true});
  schema.add("train.evaluate_every", &train.evaluate_every,
             "Measure the loss on data.validation every this many steps. 0: only at the end.",
             {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
}

void describe_output(ConfigSchema& schema, RunConfig& config) {
  schema.add("checkpoint.directory", &config.checkpoint.directory,
             "Save checkpoints in this folder; each is a Hugging Face folder. The folder belongs "
             "to this run alone, and all hosts must share it. Empty: save none; what was learned "
             "is then lost at the end.");
  schema.add("checkpoint.every", &config.checkpoint.every,
             "Save a checkpoint every this many steps. 0: only at the end.",
             {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add("checkpoint.keep", &config.checkpoint.keep,
             "How many whole checkpoints of the run to keep; older ones are deleted. Damaged ones "
             "do not count, and are not deleted.",
             {.minimum = 1, .maximum = kMostSteps});
  schema.add("checkpoint.resume", &config.checkpoint.resume,
             "Go on from the newest whole checkpoint in the directory. auto: if there is one. "
             "never: start anew, in a directory without checkpoints. must: fail if there is none.",
             {.choices = {"auto", "never", "must"}});
  schema.add("log.directory", &config.log.directory,
             "Write metrics.jsonl and report.html into this folder. Empty: do not.",
             {.per_rank = true});
  schema.add("log.every", &config.log.every,
             "If the output is not a terminal, print a progress line every this many steps.",
             {.unit = "steps",
              .minimum = 1,
              .maximum = kMostSteps,
              .unset = "after 2 s, then less and less often, but at least once a minute",
              .per_rank = true});
  schema.add("log.tensorboard", &config.log.tensorboard,
             "Also write TensorBoard's event files into log.directory.", {.per_rank = true});
  schema.add("log.report", &config.log.report,
             "Also write report.html, with charts: from time to time, and at the end.",
             {.per_rank = true});
  schema.add(
      "log.profile", &config.log.profile,
      "Profile this many steps, after the first two. Into log.directory go profile.txt, the time "
      "by layer and operator; trace-rank-N.json, a rank's timeline for ui.perfetto.dev; and "
      "timeline.json, the stages of all ranks beside simulated ones. 0: none.",
      {.unit = "steps", .minimum = 0, .maximum = kMostSteps, .per_rank = true});
}

}  // namespace

void describe_text(ConfigSchema& schema, DataConfig& data) {
  schema.add("data.format", &data.format,
             "How a file holds documents. text: the file is one document. jsonl: each line is one, "
             "in a field of a JSON object. auto: jsonl for names that end in .jsonl, .jsonl.gz or "
             ".jsonl.zst, else text.");
  schema.add("data.text_field", &data.text_field,
             "The field of a line's object that holds the document, in jsonl files.");
  schema.add("data.cache", &data.cache,
             "Keep the tokens of files in this folder, so that later runs need not tokenize them "
             "again. Empty: keep them in memory.",
             {.per_rank = true});
  schema.add("data.invalid", &data.invalid,
             "What to do with a file that is not valid UTF-8 where the tokenizer needs that, and "
             "with a line of a jsonl file that holds no document. error: stop. skip: leave it out, "
             "and count it.");
}

void describe(ConfigSchema& schema, RunConfig& config) {
  describe_model(schema, config.model);
  describe_data(schema, config.data);
  describe_parallel(schema, config.parallel);
  describe_memory(schema, config.memory);
  describe_learning(schema, config);
  describe_experts(schema, config.experts);
  describe_adapter(schema, config.adapter);
  describe_train(schema, config.train);
  describe_output(schema, config);
}

}  // namespace colossal
