#include "colossal/job/run_config.h"

#include <fmt/ranges.h>

#include "colossal/job/parallel_config.h"

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
             fmt::format("Use this built-in model, with random initial weights. Give either this "
                         "or model.path. Available: {}.",
                         fmt::join(models::preset_names(), ", ")));
  schema.add("model.path", &model.path,
             "Use the model in this Hugging Face folder: its config.json, and its weights if there "
             "are any (else random initial weights). Give either this or model.preset.",
             {.per_rank = true});
  schema.open_section("model", &model.overrides,
                      "any field of the model's config.json, to override it, such as n_layer = 6",
                      &model.override_places);
}

void describe_data(ConfigSchema& schema, DataConfig& data) {
  schema.add("data.train", &data.train,
             "The files to train on: paths or glob patterns, in which ** matches any number of "
             "subfolders. Files may be compressed (.gz, .zst).",
             {.per_rank = true});
  schema.add(
      "data.weights", &data.weights,
      "Mix the entries of data.train in these proportions, one number for each entry. Each entry "
      "is then a separate source: samples are drawn from it in proportion to its weight, and it "
      "starts again when it has been read through. 0: leave the entry out. Empty: all files are "
      "one source.",
      {.minimum = 0});
  schema.add("data.validation", &data.validation,
             "Files to measure the validation loss on, at the end and every train.evaluate_every "
             "steps. The model is not trained on them.",
             {.per_rank = true});
  schema.add(
      "data.augment", &data.augment,
      "Of images: random changes of each training image, new in each epoch. \"none\", or some "
      "of \"random_crop\" (a part of 8 % to 100 % of the area), \"flip\" (every second image "
      "is mirrored), \"color_jitter\" (brightness, contrast, saturation and hue), \"mixup\" and "
      "\"cutmix\" (an image and its target are mixed with another's; with both, either is drawn).");
  schema.add(
      "data.tokenizer", &data.tokenizer,
      "The tokenizer. \"bytes\": each byte is a token. A path: a tokenizer.json. \"model\": the "
      "tokenizer in model.path.",
      {.unset = "\"model\" if model.path has a tokenizer, else \"bytes\"", .per_rank = true});
  schema.add("data.sequence_length", &data.sequence_length,
             "Length of a sequence (a sample) in tokens. With longer sequences the model learns to "
             "use more context, but training takes more memory.",
             {.unit = "tokens",
              .minimum = 1,
              .maximum = kMostTokens,
              .unset = data.default_sequence_length});
  schema.add(
      "data.separate_documents", &data.separate_documents,
      "true: attention stays within a document (a file, or a row of one). false: a token "
      "attends to all tokens before it in its sequence, even if they belong to another document.");
  schema.add(
      "data.objective", &data.objective,
      "What the model learns. causal: to predict the next token, as decoders do. masked: to "
      "predict tokens that are masked, as encoders such as BERT do. denoising: to mend a text of "
      "which the encoder sees only parts, as encoder-decoders such as T5 do.",
      {.choices = {"causal", "masked", "denoising"},
       .unset = "\"causal\" for decoders, \"masked\" for encoders, \"denoising\" for "
                "encoder-decoders"});
  schema.add(
      "data.mask_probability", &data.mask_probability,
      "With masked tokens: the probability that a token is to be predicted. Of these tokens, "
      "80 % are replaced by the mask token, 10 % by a random token, and 10 % stay. With denoising: "
      "the share of the tokens that are in missing spans. Of images: the share of the blocks that "
      "are masked, rounded up.",
      {.minimum = 0.001, .maximum = 0.999, .unset = "0.15, of images 0.6"});
  schema.add("data.mask_block", &data.mask_block,
             "Of images: side of the square blocks that are masked as a whole, a multiple of the "
             "model's patch_size.",
             {.unit = "pixels",
              .minimum = 1,
              .unset = "32, in small images a quarter of the shorter side, in whole patches"});
  schema.add("data.seed", &data.seed, "Seed of the order in which samples are drawn.");
  describe_text(schema, data);
}

void describe_parallel(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.strategy", &parallel.strategy,
             "auto: choose the fastest layout that fits the memory, by predicting the time of a "
             "step with many layouts. It chooses those of these keys that you do not set: "
             "parallel.pp, dp, sp, tp, ep, tp_mode, tp_depth, sp_mode, zero, pp_schedule and "
             "pp_chunks, train.micro_batch, memory.recompute. manual: use the keys as they are.",
             {.choices = {"manual", "auto"}});
  schema.add(
      "parallel.cluster", &parallel.cluster,
      "A file with the rates of the machines (docs/plan.md), which colossal check "
      "--cluster=FILE writes. The search of strategy = \"auto\" and predicted times use it. "
      "Empty: for strategy = \"auto\", the machine of rank 0 is measured, and all ranks count "
      "as ranks of this host.",
      {.per_rank = true});
  schema.add("parallel.dp", &parallel.dp,
             "Data parallelism: number of replicas of the model, each of which trains on its part "
             "of the batch.",
             {.unit = "replicas",
              .minimum = 1,
              .maximum = kMostRanks,
              .unset = "all ranks / (pp x sp x tp)"});
  schema.add("parallel.pp", &parallel.pp,
             "Pipeline parallelism: number of ranks that each hold some of the model's layers. Use "
             "it for models that are too large for one rank. It communicates the least, so these "
             "ranks may be on different hosts.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanks});
  schema.add("parallel.pp_schedule", &parallel.pp_schedule,
             "The order in which the ranks of a pipeline compute micro-batches: gpipe, 1f1b, "
             "interleaved, zb-h1, zb-h2, zb-v, v-half, v-min or dualpipe-v, or the path of a file "
             "with your own schedule. docs/pipeline.md says when to use which.",
             {.unset = "1f1b"});
  schema.add("parallel.pp_chunks", &parallel.pp_chunks,
             "Number of stages of each rank of a pipeline. With more stages, ranks wait less but "
             "communicate more.",
             {.unit = "stages", .minimum = 1, .maximum = 1024, .unset = "the schedule's default"});
  describe_pipeline_layers(schema, parallel);
  describe_sequence_ranks(schema, parallel);
  describe_tensor_ranks(schema, parallel);
  describe_expert_ranks(schema, parallel);
  describe_expert_copies(schema, parallel);
  schema.add(
      "parallel.zero", &parallel.zero,
      "ZeRO stage: what is sharded over the ranks that hold the same parameters (dp x sp). 0: "
      "nothing. 1: the optimizer state. 2: also gradients. 3: also weights, which are gathered for "
      "each use. Each stage takes less memory; only stage 3 always communicates more.",
      {.unset = "1 if dp x sp > 1, else 0"});
  describe_zero_group(schema, parallel);
  schema.add("parallel.accumulate", &parallel.accumulate,
             "With zero 2 or 3 and several micro-batches per step. sharded: each rank keeps only "
             "its shard of the gradients, and gradients are reduced after every micro-batch; takes "
             "the least memory. full: each rank keeps all gradients, which are reduced once per "
             "step; communicates the least.",
             {.choices = {"sharded", "full"}});
  describe_world(schema, parallel);
  describe_timeout(schema, parallel);
}

void describe_memory(ConfigSchema& schema, MemoryConfig& config) {
  schema.add("memory.recompute", &config.recompute,
             "Activation recomputation: which activations are computed again in the backward pass "
             "instead of being saved, to save memory at the cost of time. selective: the results "
             "of norms and activation functions; costs little time. full: everything except the "
             "inputs of layers; costs about a third more computation. A number: full, for that "
             "many layers. auto: as little as fits memory.device_budget.",
             {.minimum = 0, .choices = {"none", "selective", "full", "auto"}});
  memory::add_table_rows_key(schema, &config.table_rows);
  schema.add(
      "memory.device_budget", &config.device_budget,
      "Maximum memory for a rank's tensors on its device. A run that needs more is refused before "
      "it starts, with settings that would fit. The process itself takes about 128 MiB more.",
      {.minimum = 1,
       .unset = "for train on a CPU: this host's memory / local ranks, less 128 MiB; on a GPU and "
                "for plan: no limit",
       .per_rank = true});
  schema.add("memory.host_budget", &config.host_budget,
             "Maximum memory for a rank's tensors that are offloaded to the host (memory.offload_* "
             "= \"host\").",
             {.minimum = 1,
              .maximum = kMostBytes,
              .unset = "for train on a CPU: what the device budgets leave of this host's memory / "
                       "local ranks; on a GPU and for plan: no limit",
              .per_rank = true});
  memory::add_offload_key(schema, "parameters", &config.offload_parameters, "weights",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "gradients", &config.offload_gradients, "gradient sums",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "optimizer", &config.offload_optimizer,
                          "the optimizer's master weights and moments (updated on the host)",
                          /*or_auto=*/true);
  memory::add_offload_key(schema, "activations", &config.offload_activations,
                          "activations saved for the backward pass", /*or_auto=*/true);
  memory::add_nvme_path_key(schema, &config.nvme_path);
}

// Returns a text such as "0.9, 0.95; lion: 0.9, 0.99; ...": the defaults of all optimizers that
// have the setting.
template <class Show>
std::string defaults_of_optimizers(const Show& show) {
  std::map<std::string, std::vector<std::string>> names;  // by default
  std::vector<std::string> order;
  for (const std::string& name : optim::optimizer_names()) {
    const std::string text = show(name, optim::default_settings(name));
    if (text.empty()) continue;
    if (!names.contains(text)) order.push_back(text);
    names[text].push_back(name);
  }
  std::string all;
  for (const std::string& text : order) {
    all += fmt::format("{}{} for {}", all.empty() ? "" : "; ", text, fmt::join(names[text], ", "));
  }
  return all;
}

void describe_optimizer(ConfigSchema& schema, optim::OptimizerConfig& optimizer) {
  using Defaults = optim::DefaultSettings;
  const std::vector<double> adam_betas = optimizer.adam_betas;
  schema.add(
      "optimizer.name", &optimizer.name,
      "The optimizer, which updates the weights. adamw is the usual choice. muon needs half "
      "the memory for its state and fewer steps; it updates the matrices of linear layers, and "
      "adamw the rest. adafactor and came keep averages of rows and columns instead of elements: "
      "least memory. lamb and lars are for huge batches. docs/optimizers.md compares all.",
      {.choices = optim::optimizer_names()});
  schema.add("optimizer.learning_rate", &optimizer.learning_rate,
             "The peak learning rate, reached after the warm-up.", {.minimum = 0});
  schema.add(
      "optimizer.weight_decay", &optimizer.weight_decay,
      "Weight decay: each step subtracts learning rate x this x the weight (adam, sgd and "
      "lars add it to the gradient instead). Applies to weights with two or more dimensions, "
      "not to biases and norms.",
      {.minimum = 0});
  schema.add(
      "optimizer.betas", &optimizer.betas,
      "The decay rates of the running averages of gradients, of squared gradients, and so on. "
      "Closer to 1: the averages change more slowly. adafactor has one, of the gradient; 0: "
      "none.",
      {.unset = defaults_of_optimizers([&](const std::string& name, const Defaults& defaults) {
         if (!defaults.betas) return std::string();
         const bool is_adam = optim::has_adam_betas(name);
         return fmt::format("{}", fmt::join(is_adam ? adam_betas : *defaults.betas, ", "));
       })});
  schema.add(
      "optimizer.eps", &optimizer.eps,
      "Added to the denominator of the update, to avoid a division by zero; adafactor and came "
      "add it to squared gradients.",
      {.minimum = 0,
       .unset = defaults_of_optimizers([](const std::string&, const Defaults& defaults) {
         return defaults.eps ? fmt::format("{}", *defaults.eps) : std::string();
       })});
  schema.add("optimizer.momentum", &optimizer.momentum,
             "The decay rate of the running sum of gradients. 0: the gradient itself.",
             {.minimum = 0,
              .maximum = 1,
              .unset = defaults_of_optimizers([](const std::string&, const Defaults& defaults) {
                return defaults.momentum ? fmt::format("{}", *defaults.momentum) : std::string();
              })});
  schema.add("optimizer.nesterov", &optimizer.nesterov,
             "Whether sgd and lars look ahead by one step of momentum. muon always does.");
  schema.add(
      "optimizer.trust_coefficient", &optimizer.trust_coefficient,
      "For lars: how large the update of a tensor is, as a fraction of the norm of its weights "
      "(before the learning rate).",
      {.minimum = 0});
  schema.add(
      "optimizer.clip_threshold", &optimizer.clip_threshold,
      "For adafactor and came: the largest root mean square of a tensor's update, before the "
      "learning rate.",
      {.minimum = 1e-6});
  schema.add("optimizer.scale_by_parameter", &optimizer.scale_by_parameter,
             "For adafactor: whether the learning rate of a tensor is multiplied by the root mean "
             "square of its weights, at least 0.001. Use a learning rate of about 0.01 then.");
  schema.add("optimizer.newton_schulz_steps", &optimizer.newton_schulz_steps,
             "For muon: number of iterations that make an update orthogonal.",
             {.unit = "iterations", .minimum = 1, .maximum = 50});
  schema.add(
      "optimizer.muon_scale", &optimizer.muon_scale,
      "For muon: by what the orthogonal update is multiplied. match_rms_adamw: 0.2 times the "
      "root of the larger dimension, so that a learning rate for adamw suits. original: the "
      "root of outputs / inputs, at least 1; use a learning rate of about 0.02 then.",
      {.choices = {"match_rms_adamw", "original"}});
  schema.add("optimizer.rank", &optimizer.rank,
             "For galore: the rank of the projection of gradients. Smaller: less memory.",
             {.minimum = 1, .maximum = kMostTokens});
  schema.add("optimizer.projection_interval", &optimizer.projection_interval,
             "For galore: number of steps after which the projection is computed anew.",
             {.unit = "steps", .minimum = 1, .maximum = kMostSteps});
  schema.add("optimizer.projection_scale", &optimizer.projection_scale,
             "For galore: factor of the projected updates.", {.minimum = 0});
  schema.add(
      "optimizer.groups", &optimizer.groups,
      "Other settings for some parameters. Each table has a pattern, a regular expression that "
      "is searched for in the names of parameters (those in training_state/"
      "optimizer.safetensors), and any of: name (another optimizer), learning_rate_scale, "
      "weight_decay, frozen. If several patterns match, the last counts.");
}

void describe_scheduler(ConfigSchema& schema, optim::ScheduleConfig& scheduler) {
  schema.add("scheduler.name", &scheduler.name,
             "How the learning rate changes after the warm-up. cosine: decreases along half a "
             "cosine. linear: decreases along a line. constant: does not change. wsd: stays at the "
             "peak, and decreases in the last steps, so that the length of the run can be chosen "
             "late. docs/optimizers.md draws all.",
             {.choices = optim::schedule_names()});
  schema.add(
      "scheduler.warmup_steps", &scheduler.warmup_steps,
      "Number of warm-up steps at the start, over which the learning rate increases linearly: step "
      "n has n / warmup_steps of the peak. The step after the warm-up has the peak rate again.",
      {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add("scheduler.minimum_ratio", &scheduler.minimum_ratio,
             "The learning rate at the end of the schedule, as a fraction of the peak. As in "
             "transformers, it would be reached one step after train.steps.",
             {.minimum = 0, .maximum = 1});
  schema.add("scheduler.power", &scheduler.power,
             "The exponent of the schedules polynomial and power.",
             {.minimum = 0, .unset = "1 for polynomial, 0.5 for power"});
  schema.add("scheduler.decay_factor", &scheduler.decay_factor,
             "By what step and multistep multiply the learning rate, and exponential in each step.",
             {.minimum = 0, .maximum = 1});
  schema.add("scheduler.step_size", &scheduler.step_size,
             "For step: number of steps after which the learning rate is multiplied.",
             {.unit = "steps", .minimum = 1, .maximum = kMostSteps});
  schema.add("scheduler.milestones", &scheduler.milestones,
             "For multistep: the steps after which the learning rate is multiplied.",
             {.unit = "steps", .minimum = 1, .maximum = kMostSteps});
  schema.add("scheduler.flat_ratio", &scheduler.flat_ratio,
             "For flat_cosine: fraction of the steps after the warm-up that have the peak rate.",
             {.minimum = 0, .maximum = 0.999});
  schema.add("scheduler.cycles", &scheduler.cycles,
             "For cosine_restarts: how often the learning rate falls from the peak.",
             {.minimum = 1, .maximum = kMostSteps});
  schema.add("scheduler.decay_steps", &scheduler.decay_steps,
             "For wsd and power: number of last steps in which the learning rate falls to the "
             "minimum.",
             {.unit = "steps",
              .minimum = 0,
              .maximum = kMostSteps,
              .unset = "a tenth of train.steps for wsd, 0 for power"});
  schema.add(
      "scheduler.decay_shape", &scheduler.decay_shape,
      "For wsd and power: how the learning rate falls in these steps. sqrt: by 1 - the root of "
      "the part of the steps that is done.",
      {.choices = {"linear", "cosine", "sqrt"}});
}

void describe_learning(ConfigSchema& schema, RunConfig& config) {
  schema.add("precision.compute", &config.precision.compute,
             "The type of weights and activations in computations. auto: bf16 if the processor "
             "supports bf16 matrix products, else fp32; a run that resumes keeps its type.",
             {.choices = {"auto", "fp32", "bf16", "fp64"}});
  schema.add(
      "precision.gradients", &config.precision.gradients,
      "The type in which gradients are accumulated and reduced. auto: the type of "
      "precision.compute, but fp32 with bf16 and several micro-batches per step, also when a "
      "run resumes at another layout.",
      {.choices = {"auto", "fp32", "bf16", "fp64"}});
  describe_optimizer(schema, config.optimizer);
  describe_scheduler(schema, config.scheduler);
}

void describe_experts(ConfigSchema& schema, ExpertConfig& experts) {
  schema.add("experts.balance_loss", &experts.balance_loss,
             "For models with experts: the weight of the load-balancing loss, which is smallest if "
             "all experts get equally many tokens. It is added to the mean loss, and logged as "
             "auxiliary_loss.",
             {.minimum = 0,
              .maximum = 1e6,
              .unset = "0; the model's router_aux_loss_coef if its output_router_logits is true"});
  schema.add("experts.balance_over", &experts.balance_over,
             "The tokens over which the load-balancing loss is computed. sequence: each sequence, "
             "for each layer. micro_batch: a micro-batch of all replicas together, for each layer. "
             "layers: the same, over all layers together, as in transformers.",
             {.choices = {"sequence", "micro_batch", "layers"},
              .unset = "micro_batch; layers if the model's config asks for the loss"});
  schema.add("experts.z_loss", &experts.z_loss,
             "The weight of the router z-loss, which keeps router logits small: for each layer, "
             "the mean over tokens of the squared log-sum-exp of the logits.",
             {.minimum = 0, .maximum = 1e6});
  schema.add("experts.bias_rate", &experts.bias_rate,
             "Balancing without a loss: how much each step raises the router bias of experts that "
             "got fewer tokens than the mean, and lowers that of the others. These biases affect "
             "only which experts are chosen. For models whose routers have such biases.",
             {.minimum = 0, .maximum = 1});
  schema.add(
      "experts.capacity_factor", &experts.capacity_factor,
      "Capacity of an expert in training: how many tokens of a sequence it accepts, as a multiple "
      "of an equal share. The tokens with the smallest router weights are dropped first, and "
      "logged as router_dropped. This limits an expert's work. 0: no limit, no token is dropped.",
      {.minimum = 0, .maximum = 1e6});
  schema.add("experts.observed", &experts.observed,
             "The routing.json that an earlier run of the model wrote into its log.directory: how "
             "many rows each expert had. With ep, experts are then assigned to ranks so that all "
             "ranks have about equally many rows, and plans use these counts. Empty: experts are "
             "assigned in order, and plans assume equally many rows for each.");
}

void describe_adapter(ConfigSchema& schema, AdapterConfig& adapter) {
  schema.add(
      "adapter.kind", &adapter.kind,
      "lora: freeze the weights of model.path and train a low-rank adapter for each linear layer "
      "instead. prefix: train keys and values that every layer sees before those of the text "
      "(prefix tuning). Both take a fraction of the memory; checkpoints are peft folders.",
      {.choices = {"none", "lora", "prefix"}});
  schema.add("adapter.virtual_tokens", &adapter.virtual_tokens,
             "Number of virtual tokens of a prefix. More can learn more, but leave fewer positions "
             "for the text.",
             {.minimum = 1, .maximum = 65536});
  schema.add("adapter.rank", &adapter.rank,
             "The rank of the adapters. Higher: more trainable weights, which can learn more and "
             "take more memory.",
             {.minimum = 1, .maximum = 65536});
  schema.add("adapter.alpha", &adapter.alpha,
             "An adapter's output is multiplied by alpha / rank, so that the learning rate need "
             "not change with the rank.",
             {.minimum = 1e-9, .maximum = 1e9});
  schema.add("adapter.dropout", &adapter.dropout,
             "The dropout probability at the adapters' inputs.", {.minimum = 0, .maximum = 0.999});
  schema.add("adapter.targets", &adapter.targets,
             "Which linear layers get an adapter: names as in the model's files (q_proj), or "
             "regular expressions that match whole names. Empty: all linear layers of the blocks "
             "except stacked experts.");
  schema.add("adapter.target_parameters", &adapter.target_parameters,
             "Which stacked experts get adapters, one for each expert: \"experts.gate_up_proj\", "
             "\"experts.down_proj\", or regular expressions that match whole names. If only this "
             "key is given, no linear layer gets an adapter.");
  schema.add(
      "adapter.rslora", &adapter.rslora,
      "true: multiply by alpha / sqrt(rank) instead (rsLoRA), which is better for high ranks.");
  schema.add("adapter.initial", &adapter.initial,
             "Initial values of new adapters. gaussian: A is random, B is zero. pissa: A and B are "
             "the largest singular values and vectors of the weight, and the frozen weight keeps "
             "the rest (PiSSA); a checkpoint then has twice the rank and fits the original model. "
             "A prefix has gaussian or zeros.",
             {.choices = {"gaussian", "pissa", "zeros"}});
  schema.add("adapter.dora", &adapter.dora,
             "true: DoRA: also train the magnitude of each output; the low-rank product changes "
             "directions only.");
  schema.add("adapter.rank_pattern", &adapter.rank_pattern,
             "Other ranks for some linear layers: entries MODULES=RANK, with names as in "
             "adapter.targets, such as \"down_proj=8\". The first entry that matches is used.");
  schema.add("adapter.alpha_pattern", &adapter.alpha_pattern,
             "Other values of alpha for some linear layers, in the same form.");
  schema.add("adapter.modules_to_save", &adapter.modules_to_save,
             "Modules that are fully trained in addition to the adapters, and saved with them: "
             "names as in the model's files, such as \"lm_head\" or a new \"score\".");
  schema.add("adapter.base", &adapter.base,
             "How the frozen weights of the blocks' linear layers are stored. as_is: in "
             "precision.compute. int8: quantized, 8.25 bits each. nf4: quantized, 4.13 bits each, "
             "as in QLoRA. Quantized weights are dequantized for computations.",
             {.choices = {"as_is", "int8", "nf4"}});
  schema.add("adapter.resume_from", &adapter.resume_from,
             "Start from the adapter in this folder, with its rank, alpha and targets, instead of "
             "from a new one.",
             {.per_rank = true});
}

void describe_train(ConfigSchema& schema, TrainConfig& train) {
  schema.add("train.steps", &train.steps,
             "Total number of training steps, including those before the checkpoint that the run "
             "resumes from.",
             {.unit = "steps", .minimum = 1, .maximum = kMostSteps});
  schema.add("train.global_batch", &train.global_batch,
             "Number of sequences per step, over all ranks. Must be a multiple of dp.",
             {.unit = "sequences", .minimum = 1, .maximum = kMostSequences});
  schema.add("train.micro_batch", &train.micro_batch,
             "Number of sequences per forward pass of a replica. Smaller takes less memory. The "
             "gradients of a step's micro-batches are summed.",
             {.unit = "sequences",
              .minimum = 1,
              .maximum = kMostSequences,
              .unset = "the replica's whole part of the batch"});
  schema.add("train.gradient_clip", &train.gradient_clip,
             "Gradient clipping: scale a step's gradients down to this norm, over all parameters, "
             "if their norm is larger. 0: no clipping.",
             {.minimum = 0});
  schema.add("train.seed", &train.seed, "Seed of the initial weights and of dropout.");
  schema.add("train.dropout", &train.dropout,
             "Replaces every dropout probability in the model's config.json.",
             {.minimum = 0, .maximum = 0.999, .unset = "the model's"});
  schema.add("train.threads", &train.threads, "Number of CPU threads of each rank.",
             {.minimum = 1,
              .maximum = kMostThreads,
              .unset = "cores / local ranks, at most OMP_NUM_THREADS if that is set",
              .per_rank = true});
  schema.add("train.evaluate_every", &train.evaluate_every,
             "Measure the loss on data.validation every this many steps. 0: only at the end.",
             {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add("train.evaluate_sequences", &train.evaluate_sequences,
             "Evaluate on the first this many sequences of data.validation only, always the same "
             "ones. 0: on all.",
             {.unit = "sequences", .minimum = 0, .maximum = kMostSteps});
  schema.add("train.early_stopping", &train.early_stopping,
             "End the run when this many evaluations, one after the other, are not better than the "
             "best one before, by checkpoint.best_metric. 0: never.",
             {.unit = "evaluations", .minimum = 0, .maximum = kMostSteps});
  schema.add("train.early_stopping_threshold", &train.early_stopping_threshold,
             "With train.early_stopping: by how much an evaluation must be better than the best.",
             {.minimum = 0});
  schema.add("train.sample_prompts", &train.sample_prompts,
             "Prompts that the model completes at each evaluation, greedily; the completions go to "
             "samples.jsonl and report.html in log.directory.");
  schema.add("train.sample_tokens", &train.sample_tokens,
             "With train.sample_prompts: most tokens of a completion.",
             {.unit = "tokens", .minimum = 1, .maximum = kMostTokens});
}

void describe_output(ConfigSchema& schema, RunConfig& config) {
  schema.add("checkpoint.directory", &config.checkpoint.directory,
             "Save checkpoints in this folder; each is a Hugging Face folder. Every run needs a "
             "folder of its own, shared by all hosts. Empty: nothing is saved, and the trained "
             "model is lost at the end.");
  schema.add("checkpoint.every", &config.checkpoint.every,
             "Save a checkpoint every this many steps. 0: only at the end.",
             {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add(
      "checkpoint.memory_every", &config.checkpoint.memory_every,
      "Elastic runs on one host (--min-ranks): also save a checkpoint into the host's memory "
      "(/dev/shm) every this many steps, from which the run resumes after a failure. Takes "
      "the memory of two checkpoints. 0: none.",
      {.unit = "steps", .minimum = 0, .maximum = kMostSteps});
  schema.add(
      "checkpoint.keep", &config.checkpoint.keep,
      "Number of complete checkpoints of the run to keep; older ones are deleted, also those "
      "that other runs start from. Damaged checkpoints do not count and are not deleted. 0: "
      "keep all.",
      {.minimum = 0, .maximum = kMostSteps});
  schema.add("checkpoint.keep_best", &config.checkpoint.keep_best,
             "Number of checkpoints to keep in addition to the newest: those with the best "
             "checkpoint.best_metric. With validation_loss, an evaluation that is among the best "
             "also saves a checkpoint.",
             {.minimum = 0, .maximum = kMostSteps});
  schema.add("checkpoint.best_metric", &config.checkpoint.best_metric,
             "The metric by which checkpoints are compared: a key of metrics.jsonl with a number, "
             "such as rewards/mean, of the checkpoint's step.");
  schema.add("checkpoint.best_is", &config.checkpoint.best_is,
             "Whether the lowest or the highest value of this metric is the best.",
             {.choices = {"lowest", "highest"}});
  schema.add("checkpoint.resume", &config.checkpoint.resume,
             "Whether to resume from the newest complete checkpoint in checkpoint.directory. auto: "
             "if there is one. never: start a new run, in a directory without checkpoints. must: "
             "resume, or fail if there is no checkpoint.",
             {.choices = {"auto", "never", "must"}});
  schema.add(
      "log.directory", &config.log.directory,
      "Write metrics.jsonl, report.html and run.toml, the settings used, into this folder. If "
      "it has those of another run, a subfolder is used. Empty: write none.",
      {.per_rank = true});
  schema.add("log.every", &config.log.every,
             "If the output is not a terminal, print a progress line every this many steps.",
             {.unit = "steps",
              .minimum = 1,
              .maximum = kMostSteps,
              .unset = "after 2 s, then less and less often, but at least once a minute",
              .per_rank = true});
  schema.add("log.tensorboard", &config.log.tensorboard,
             "Also write TensorBoard event files into log.directory.", {.per_rank = true});
  schema.add("log.mlflow", &config.log.mlflow,
             "Also write the run into this folder as a file store of MLflow (mlruns). Empty: do "
             "not.",
             {.per_rank = true});
  schema.add("log.wandb", &config.log.wandb,
             "Also write the run into this folder as Weights & Biases does offline; `wandb sync` "
             "sends it. Empty: do not.",
             {.per_rank = true});
  schema.add("log.project", &config.log.project,
             "The name of MLflow's experiment and of Weights & Biases' project.",
             {.per_rank = true});
  schema.add("log.report", &config.log.report,
             "Also write report.html, with charts: from time to time and at the end.",
             {.per_rank = true});
  schema.add(
      "log.profile", &config.log.profile,
      "Profile this many steps, after the first two. Writes into log.directory: profile.txt, the "
      "time by layer and operator and, on a GPU, by kernel; trace-rank-N.json, a rank's timeline "
      "for ui.perfetto.dev; and timeline.json, the measured stages of all ranks and the simulated "
      "ones. 0: no profile.",
      {.unit = "steps", .minimum = 0, .maximum = kMostSteps, .per_rank = true});
}

}  // namespace

void describe_text(ConfigSchema& schema, DataConfig& data) {
  schema.add(
      "data.format", &data.format,
      "How a file contains documents. text: the file is one document. All others: each row "
      "has one: a line with a JSON object (jsonl), an object of a list or of several (json), "
      "a row of a table (csv, tsv, parquet, arrow). auto: by the name, in any case: .jsonl, "
      ".ndjson, .json, .csv, .tsv, .parquet, .arrow, compressed or not; else text.");
  schema.add("data.text_field", &data.text_field,
             "With files that have rows: the field, or column, that contains the document.");
  schema.add("data.bos", &data.bos,
             "Whether a beginning-of-text token stands before each document, as before a text that "
             "`transformers` tokenizes. auto: if the tokenizer's post-processor adds one.",
             {.unset = "auto"});
  schema.add("data.cache", &data.cache,
             "Cache the tokens of files in this folder, so that later runs need not tokenize them "
             "again. Empty: keep tokens in memory only.",
             {.per_rank = true});
  schema.add("data.invalid", &data.invalid,
             "What to do with a file that cannot be read as text, such as an archive or, if the "
             "tokenizer needs UTF-8, a file that is not UTF-8, and with a row that contains no "
             "document. error: stop. skip: leave it out and count it.");
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
