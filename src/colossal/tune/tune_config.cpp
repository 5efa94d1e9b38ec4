#include "colossal/tune/tune_config.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/tune/resolve.h"
#include "colossal/tune/rewards/rewards.h"

namespace colossal::tune {
namespace {

std::vector<std::string> loss_types_of(Method method) {
  switch (method) {
    case Method::dpo:
      return dpo_loss_types();
    case Method::cpo:
      return cpo_loss_types();
    case Method::kto:
      return {"kto", "apo_zero_unpaired"};
    case Method::sft:
      return {"nll", "dft"};
    case Method::grpo:
      return policy_loss_types();
    default:
      return {};
  }
}

double learning_rate_of(Method method) {
  if (method == Method::sft) return 2e-5;
  if (method == Method::ppo) return 3e-6;
  if (method == Method::draft_head) return 3e-4;
  if (method == Method::classify) return 5e-5;
  return method == Method::reward ? 1e-4 : 1e-6;
}

void describe_loss_type(ConfigSchema& schema, Method method, TuneConfig& config) {
  const std::vector<std::string> types = loss_types_of(method);
  if (types.empty()) return;
  schema.add("tune.loss_type", &config.loss_type,
             fmt::format("The loss function: {}. docs/tuning.md has the formulas.{}",
                         fmt::join(types, ", "),
                         method == Method::dpo ? " With several, their weighted sum." : ""),
             {.choices = types});
  if (method != Method::dpo) return;
  schema.add(
      "tune.loss_weights", &config.loss_weights,
      "The weights of the losses in tune.loss_type, one for each. Empty: all weights are 1.");
}

void describe_groups(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.num_generations", &config.num_generations,
             "Group size: how many completions of each prompt to sample and compare with each "
             "other. train.global_batch counts completions.",
             {.unit = "completions", .minimum = 2});
  schema.add("tune.dynamic_sampling", &config.dynamic_sampling,
             "true: leave out groups whose rewards are all equal, which give no gradient, and "
             "sample other prompts instead (DAPO).");
  schema.add("tune.max_sampling_rounds", &config.max_sampling_rounds,
             "Maximum number of sampling rounds of tune.dynamic_sampling for one generation.",
             {.minimum = 1});
}

void describe_values(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.vf_coef", &config.vf_coef, "The weight of the value head's loss.",
             {.minimum = 0});
  schema.add("tune.cliprange_value", &config.cliprange_value,
             "The clip range of the value loss: how far a predicted value may move from its value "
             "when the completion was sampled.",
             {.minimum = 0});
  schema.add("tune.gamma", &config.gamma,
             "The discount factor of generalized advantage estimation, applied to a reward for "
             "each token before it.",
             {.minimum = 0, .maximum = 1});
  schema.add(
      "tune.lam", &config.lam,
      "The lambda of generalized advantage estimation. 1: advantages depend on the rewards alone, "
      "without bias but with high variance. 0: advantages depend on the next predicted value.",
      {.minimum = 0, .maximum = 1});
  schema.add("tune.whiten_rewards", &config.whiten_rewards,
             "true: scale the rewards of tokens to standard deviation 1 over a generation.");
  schema.add("tune.missing_eos_penalty", &config.missing_eos_penalty,
             "Subtracted from the reward of a completion that is cut off before it ends.");
}

void describe_sampling(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.max_completion_length", &config.max_completion_length,
             "Maximum length of a completion in tokens; longer ones are cut off.",
             {.unit = "tokens", .minimum = 1});
  schema.add("tune.temperature", &config.temperature,
             "Sampling temperature: divides the logits, both when completions are sampled and when "
             "their probabilities are compared. Lower: completions vary less.",
             {.minimum = 1e-6});
  schema.add("tune.top_k", &config.top_k,
             "Sample from the k most likely tokens only. 0: from all tokens.", {.minimum = 0});
  schema.add("tune.top_p", &config.top_p,
             "Sample from the smallest set of most likely tokens whose probabilities sum to at "
             "least this. 1: from all tokens.",
             {.minimum = 1e-9, .maximum = 1});
  schema.add("tune.min_p", &config.min_p,
             "Sample only from tokens at least this many times as likely as the most likely one. "
             "0: from all tokens.",
             {.minimum = 0, .maximum = 1});
  schema.add("tune.repetition_penalty", &config.repetition_penalty,
             "Above 1: tokens that have occurred become less likely. 1: no penalty.",
             {.minimum = 1e-6});
  schema.add("tune.batch_invariant", &config.batch_invariant,
             "true: a completion is bit-identical whatever else is sampled in the same batch, and "
             "at every layout. Sampling is slower.");
}

void describe_distillation(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.teacher", &config.teacher,
             "The folder of the teacher model, or its name on the Hugging Face Hub if it has been "
             "downloaded. It needs the same vocabulary, but may be of another "
             "size or family.",
             {.per_rank = true});
  schema.add("tune.beta", &config.beta,
             "Which divergence from the teacher is the loss. 0: KL(teacher || model), forward. 1: "
             "KL(model || teacher), reverse. Between: the generalized Jensen-Shannon divergence.",
             {.minimum = 0, .maximum = 1});
  schema.add("tune.lmbda", &config.lmbda,
             "Fraction of the steps that train on completions sampled from the model itself. The "
             "others train on the completions of data.train.",
             {.minimum = 0, .maximum = 1});
  describe_sampling(schema, config);
}

void describe_rewards(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.reward", &config.reward,
             "The reward functions, whose rewards are added. Built in: accuracy, format, length, "
             "repetition, overlong. A reward model: \"model:DIR\". Your own: \"command:PROGRAM\" "
             "(lines of JSON in, numbers out) or \"http://HOST:PORT/PATH\".");
  schema.add("tune.reward_weights", &config.reward_weights,
             "The weights of the rewards in tune.reward, one for each. Empty: all weights are 1.");
  schema.add("tune.reward_timeout", &config.reward_timeout,
             "How long a reward program or address may take for a batch. If it fails or takes "
             "longer, a warning is logged, and the completions have no reward from it.",
             {.minimum = 1e-3});
  schema.add(
      "tune.overlong_tokens", &config.overlong_tokens,
      "The reward overlong starts to decrease this many tokens before tune.max_completion_length.",
      {.unit = "tokens", .minimum = 1});
}

void describe_staleness(ConfigSchema& schema, TuneConfig& config) {
  schema.add(
      "tune.max_staleness", &config.max_staleness,
      "Asynchronous sampling: how many generations ahead completions are started. They are sampled "
      "during each update, with the weights before it, so that a generation need not wait for its "
      "longest completion. 0: all tokens are sampled with the newest weights.",
      {.unit = "generations", .minimum = 0});
  schema.add("tune.overlap_sampling", &config.overlap_sampling,
             "With tune.max_staleness. true: sample during the forward and backward passes of "
             "updates. false: sample before them. The results are the same. Always false with "
             "parallel.zero = 3, with memory.offload_parameters and on a GPU.");
  schema.add("tune.importance_sampling_mode", &config.importance_sampling_mode,
             "Corrects the loss for tokens that were sampled with other weights or kernels. "
             "token_*: each token's loss is multiplied by its importance ratio, the trainer's "
             "probability over the sampler's. sequence_*: by the ratio of the whole completion. "
             "*_truncate: ratios out of bounds are set to the bound. *_mask: they are set to 0.",
             {.unset = "sequence_mask with tune.max_staleness, else none"});
  schema.add("tune.importance_sampling_clip_max", &config.importance_sampling_clip_max,
             "The upper bound of the ratios of tune.importance_sampling_mode.", {.minimum = 0});
  schema.add("tune.importance_sampling_clip_min", &config.importance_sampling_clip_min,
             "The lower bound of the ratios of tune.importance_sampling_mode.",
             {.minimum = 0, .unset = "none"});
}

void describe_updates(ConfigSchema& schema, Method method, TuneConfig& config) {
  describe_staleness(schema, config);
  schema.add("tune.beta", &config.beta,
             method != Method::grpo
                 ? "The KL penalty: how much divergence from the initial model lowers the reward."
                 : "The weight of the divergence from the initial model in the loss. 0: no such "
                   "term, and no reference model is kept.",
             {.minimum = 0});
  schema.add("tune.epsilon", &config.epsilon,
             "Clip range of the ratio of a token's new probability to its old one: below 1 minus "
             "this, the ratio is clipped.",
             {.minimum = 0});
  schema.add("tune.epsilon_high", &config.epsilon_high,
             "Upper clip range: above 1 plus this, the ratio is clipped. With loss_type = cispo: "
             "the largest ratio.",
             {.minimum = 0, .unset = "tune.epsilon"});
  schema.add("tune.num_iterations", &config.num_iterations,
             "How many times to train on each completion.", {.minimum = 1});
  schema.add("tune.steps_per_generation", &config.steps_per_generation,
             "Sample the completions for this many steps at once; each step trains on "
             "train.global_batch of them.",
             {.unit = "steps", .minimum = 1});
  schema.add("tune.mask_truncated_completions", &config.mask_truncated_completions,
             "true: do not train on completions that were cut off.");
  if (method == Method::ppo) return describe_values(schema, config);
  if (method == Method::rloo) {
    schema.add(
        "tune.normalize_advantages", &config.normalize_advantages,
        "true: shift and scale the advantages of a generation to mean 0 and standard deviation 1.");
    schema.add(
        "tune.reward_clip_range", &config.reward_clip_range,
        "The lowest and the highest reward; rewards outside are set to these. Empty: no limits.");
    return;
  }
  schema.add(
      "tune.delta", &config.delta,
      "Upper limit of the ratio of new to old probability, whatever the sign of the advantage.",
      {.minimum = 0, .unset = "none"});
  schema.add("tune.importance_sampling_level", &config.importance_sampling_level,
             "token: each token has its own ratio of new to old probability. sequence: all tokens "
             "of a completion share the geometric mean of their ratios (GSPO).");
  schema.add(
      "tune.scale_rewards", &config.scale_rewards,
      "What advantages are divided by. group: the standard deviation of the group's rewards. "
      "batch: the standard deviation of the generation's rewards. none: not divided.");
  schema.add("tune.use_bias_correction_kl", &config.use_bias_correction_kl,
             "true: multiply a token's divergence by its ratio of new to old probability.");
}

void validate_staleness(Method method, const TuneConfig& config) {
  if (config.dynamic_sampling && config.max_staleness > 0) {
    throw ConfigError(
        fmt::format("tune.dynamic_sampling with tune.max_staleness = {}: dynamic sampling knows "
                    "which prompts a generation needs only after its completions have rewards, so "
                    "it cannot start them earlier; use one of the two",
                    config.max_staleness));
  }
  const ImportanceCorrection correction = config.correction();
  const bool has_bounds =
      config.importance_sampling_clip_min ||
      config.importance_sampling_clip_max != TuneConfig().importance_sampling_clip_max;
  if (has_bounds && correction == ImportanceCorrection::none) {
    throw ConfigError(
        "tune.importance_sampling_clip_min and tune.importance_sampling_clip_max bound the ratios "
        "of tune.importance_sampling_mode, which is none; choose a mode, or leave them out");
  }
  if (method == Method::rloo && correction != ImportanceCorrection::none &&
      !is_of_sequences(correction)) {
    throw ConfigError(
        "tune.importance_sampling_mode corrects single tokens, but rloo has one loss for a whole "
        "completion; use sequence_truncate or sequence_mask");
  }
  if (config.importance_sampling_clip_min &&
      *config.importance_sampling_clip_min > config.importance_sampling_clip_max) {
    throw ConfigError(fmt::format(
        "tune.importance_sampling_clip_min = {} is above tune.importance_sampling_clip_max = {}",
        *config.importance_sampling_clip_min, config.importance_sampling_clip_max));
  }
}

void validate_online(Method method, const RunConfig& run, const TuneConfig& config) {
  const char* const name = method_name(method);
  if (config.reward.empty()) {
    throw ConfigError(
        fmt::format("tune.reward is empty: {} needs rewards; give one or more of {}, "
                    "\"model:DIR\", \"command:PROGRAM\" and \"http://HOST:PORT/PATH\"",
                    name, fmt::join(built_in_rewards(), ", ")));
  }
  for (const std::string& reward : config.reward) {
    if (!reward_model_folder(reward)) make_reward_function(reward, {});
  }
  if (!config.reward_weights.empty() && config.reward_weights.size() != config.reward.size()) {
    throw ConfigError(fmt::format(
        "tune.reward_weights has {} numbers for {} rewards in tune.reward; give one for each",
        config.reward_weights.size(), config.reward.size()));
  }
  if (!config.reward_clip_range.empty() &&
      (config.reward_clip_range.size() != 2 ||
       config.reward_clip_range[0] > config.reward_clip_range[1])) {
    throw ConfigError(fmt::format(
        "tune.reward_clip_range = [{}]: must be empty, or the lowest and the highest reward",
        fmt::join(config.reward_clip_range, ", ")));
  }
  if (run.train.global_batch * config.steps_per_generation % config.num_generations != 0) {
    throw ConfigError(fmt::format(
        "train.global_batch = {} times tune.steps_per_generation = {} is not a multiple of "
        "tune.num_generations = {}: a generation consists of whole groups; use train.global_batch "
        "= {}",
        run.train.global_batch, config.steps_per_generation, config.num_generations,
        (run.train.global_batch / config.num_generations + 1) * config.num_generations));
  }
  validate_staleness(method, config);
  if (config.overlong_tokens > config.max_completion_length &&
      std::ranges::find(config.reward, "overlong") != config.reward.end()) {
    throw ConfigError(fmt::format(
        "tune.overlong_tokens = {} with tune.max_completion_length = {}: the reward would decrease "
        "before the first token; use at most {}",
        config.overlong_tokens, config.max_completion_length, config.max_completion_length));
  }
  if (config.delta && *config.delta <= 1 + config.highest_epsilon()) {
    throw ConfigError(fmt::format(
        "tune.delta = {}: must be above 1 + tune.epsilon_high = {}, as it limits larger ratios",
        *config.delta, 1 + config.highest_epsilon()));
  }
  if (!run.data.validation.empty()) {
    throw ConfigError(
        fmt::format("data.validation with tune {}: this method trains on completions that it "
                    "samples, so it has no loss of held-out completions; leave data.validation "
                    "out, and watch reward in metrics.jsonl",
                    name));
  }
}

void validate_distillation(const RunConfig& run, const TuneConfig& config) {
  if (config.teacher.empty()) {
    throw ConfigError("tune.teacher is empty: distill needs a teacher model; give its folder");
  }
  if (config.lmbda == 1 && !run.data.validation.empty()) {
    throw ConfigError(
        "data.validation with tune.lmbda = 1: all completions are sampled then, so lines need no "
        "completions and there is no validation loss; leave data.validation out, or use a "
        "tune.lmbda below 1 and lines with completions");
  }
}

}  // namespace

std::vector<std::pair<std::string, Method>> method_names() {
  return {{"sft", Method::sft},
          {"reward", Method::reward},
          {"classify", Method::classify},
          {"dpo", Method::dpo},
          {"kto", Method::kto},
          {"orpo", Method::orpo},
          {"simpo", Method::simpo},
          {"cpo", Method::cpo},
          {"grpo", Method::grpo},
          {"rloo", Method::rloo},
          {"ppo", Method::ppo},
          {"distill", Method::distill},
          {"draft_head", Method::draft_head}};
}

bool is_online(Method method) {
  return method == Method::grpo || method == Method::rloo || method == Method::ppo;
}

const char* method_name(Method method) {
  static const auto names = method_names();
  return std::ranges::find(names, method, &std::pair<std::string, Method>::second)->first.c_str();
}

const char* describe_method(Method method) {
  switch (method) {
    case Method::sft:
      return "Supervised fine-tuning on texts, or on prompts with completions";
    case Method::reward:
      return "Train a reward model, which gives each text a number, higher for the better of two";
    case Method::classify:
      return "Train a model that gives texts, or pairs of texts, labels: classes, tags or numbers";
    case Method::dpo:
      return "Preference tuning on pairs of a better and a worse completion, with a reference "
             "model (DPO, variants)";
    case Method::kto:
      return "Preference tuning on single completions labelled desirable or undesirable, with a "
             "reference model (KTO)";
    case Method::orpo:
      return "Supervised fine-tuning on chosen completions plus preference tuning against rejected "
             "ones; no reference model (ORPO)";
    case Method::simpo:
      return "Preference tuning on pairs, by mean log-probabilities per token; no reference model "
             "(SimPO)";
    case Method::grpo:
      return "Reinforcement learning: compares the rewards of sampled completions in groups (GRPO, "
             "DAPO)";
    case Method::rloo:
      return "Reinforcement learning: compares each sampled completion's reward with the mean of "
             "the others (RLOO)";
    case Method::ppo:
      return "Reinforcement learning on rewards of sampled completions, with a value head (PPO)";
    case Method::distill:
      return "Distillation: learn a teacher model's probabilities, on completions that the model "
             "samples (GKD)";
    case Method::draft_head:
      return "Train a small head that guesses a model's next tokens from its hidden states, for "
             "--speculate=eagle (EAGLE)";
    case Method::cpo:
      break;
  }
  return "Preference tuning on pairs, plus supervised fine-tuning on the better completion; no "
         "reference model (CPO)";
}

void set_defaults(Method method, RunConfig& run, TuneConfig& config) {
  run.optimizer.learning_rate = learning_rate_of(method);
  run.optimizer.adam_betas = {0.9, 0.999};
  run.optimizer.weight_decay = 0;
  run.scheduler.name = "linear";
  run.train.global_batch = 8;
  if (method == Method::dpo || method == Method::kto || method == Method::reward) {
    run.train.dropout = 0;
  }
  if (method == Method::reward) run.model.labels = models::numbered_labels(1);
  if (method == Method::sft) config.loss_type = {"nll"};
  if (method == Method::dpo || method == Method::cpo) config.loss_type = {"sigmoid"};
  if (method == Method::kto) config.loss_type = {"kto"};
  if (method == Method::grpo) {
    config.loss_type = {"dapo"};
    config.beta = 0;
  }
  if (method == Method::rloo) {
    config.num_generations = 2;
    config.beta = 0.05;
  }
  if (method == Method::distill) config.beta = 1;
  run.data.default_sequence_length = default_sequence_length({method, config});
  run.model.value_head = method == Method::ppo;
  run.model.draft_head = method == Method::draft_head;
  if (method == Method::ppo) {
    config.num_generations = 1;
    config.num_iterations = 4;
    config.beta = 0.05;
    config.temperature = 0.7;
    config.max_completion_length = 53;
  }
  if (method == Method::simpo) {
    config.loss_type = {"simpo"};
    config.cpo_alpha = 0;
  }
}

void describe(ConfigSchema& schema, Method method, TuneConfig& config) {
  schema.add(
      "tune.epochs", &config.epochs,
      "Number of epochs: how many times to train on each sample. Ignored if train.steps is given.",
      {.minimum = 1e-6, .maximum = 1e6});
  schema.add("data.chat_template", &config.chat_template,
             "The chat template, which turns a conversation into a text. \"model\": the template "
             "of model.path. A path: a template file (.jinja).",
             {.per_rank = true});
  schema.add("data.eos_token", &config.eos_token,
             "The token that ends texts and turns, such as \"</s>\". Checkpoints name it as an "
             "end token, so that generation stops where the model was taught to. \"auto\": the "
             "tokenizer's end token and, of conversations, the token with which the chat template "
             "ends what the assistant says.");
  describe_loss_type(schema, method, config);
  if (method == Method::sft) {
    schema.add("tune.assistant_only_loss", &config.assistant_only_loss,
               "For conversations. true: compute the loss only on what the assistant says, as the "
               "template marks it with {% generation %}.");
    schema.add("data.packing", &config.packing,
               "Put several samples into a row to reduce padding. bfd: the end of a sample that is "
               "longer than a row is dropped. bfd_split: such a sample is split. With both, "
               "attention stays within a sample. wrapped: samples are cut at the ends of rows, and "
               "attention crosses samples.",
               {.unset = "none"});
    schema.add("tune.completion_only_loss", &config.completion_only_loss,
               "For samples with a prompt and a completion. true: compute the loss only on the "
               "completion. false: also on the prompt.");
    return;
  }
  if (method == Method::classify) {
    schema.add("data.pair_field", &config.pair_field,
               "The field of the second text, in lines that have one: the model then labels the "
               "pair.");
    schema.add("data.label_field", &config.label_field,
               "The field of the label: a text or a whole number (a class), a list of texts "
               "(several labels), or a number with a decimal point (regression).");
    schema.add("tune.problem_type", &config.problem_type,
               "What the labels mean. single_label_classification: one of several classes. "
               "multi_label_classification: any number of labels. regression: numbers.",
               {.unset = "that of the model if it gives labels, else as the labels look"});
    return;
  }
  if (method == Method::distill) return describe_distillation(schema, config);
  if (method == Method::draft_head) {
    schema.add("tune.teacher", &config.teacher,
               "The folder of the model to guess tokens for. Empty: the model in model.path. Give "
               "it if model.path is the folder of a head to train further.",
               {.per_rank = true});
    return;
  }
  if (is_online(method)) {
    describe_sampling(schema, config);
    schema.add("tune.log_completions", &config.log_completions,
               "true: append completions and their rewards to completions.jsonl in log.directory.");
    if (method != Method::ppo) describe_groups(schema, config);
    describe_rewards(schema, config);
    describe_updates(schema, method, config);
    return;
  }
  if (method == Method::reward) {
    schema.add("tune.center_rewards_coefficient", &config.center_rewards_coefficient,
               "The weight of a term that keeps the mean reward of a pair near 0.", {.minimum = 0});
    return;
  }
  schema.add(
      "tune.beta", &config.beta,
      method == Method::orpo
          ? "The weight of the odds-ratio loss, relative to the loss of the chosen completion."
      : method == Method::dpo || method == Method::kto
          ? "How closely the model stays to the reference model: larger is closer."
          : "How sharply the loss separates chosen from rejected completions: larger is sharper.",
      {.minimum = 1e-9});
  if (method == Method::kto) {
    schema.add("tune.desirable_weight", &config.desirable_weight,
               "The weight of the loss of desirable completions.", {.minimum = 0});
    schema.add("tune.undesirable_weight", &config.undesirable_weight,
               "The weight of the loss of undesirable completions.", {.minimum = 0});
    return;
  }
  if (method == Method::orpo) return;
  schema.add("tune.label_smoothing", &config.label_smoothing,
             "The assumed fraction of pairs whose labels are swapped.",
             {.minimum = 0, .maximum = 1});
  if (method == Method::dpo) {
    schema.add("tune.f_divergence_type", &config.f_divergence_type,
               "The divergence from the reference model that scores completions.");
    schema.add("tune.f_alpha_divergence_coef", &config.f_alpha_divergence_coef,
               "The alpha of f_divergence_type = alpha_divergence.");
    schema.add("tune.discopop_tau", &config.discopop_tau,
               "The temperature of loss_type = discopop.", {.minimum = 1e-9});
    schema.add("tune.ld_alpha", &config.ld_alpha,
               "The weight of the extra tokens of the longer completion of a pair. Below 1: length "
               "has less influence.",
               {.minimum = 0, .maximum = 1, .unset = "1"});
    return;
  }
  schema.add(
      "tune.simpo_gamma", &config.simpo_gamma,
      "With loss_type = simpo: the target margin between the chosen and the rejected completion.");
  schema.add("tune.cpo_alpha", &config.cpo_alpha,
             "The weight of the supervised loss of the chosen completion, per token.",
             {.minimum = 0});
  schema.add("tune.alpha", &config.alpha,
             "How strongly AlphaPO transforms rewards away from log-probabilities. 0: rewards are "
             "log-probabilities.");
}

bool has_reference(Method method, const TuneConfig& config) {
  if (is_online(method)) return config.beta != 0;
  return method == Method::dpo || method == Method::kto;
}

void validate(Method method, const RunConfig& run, const TuneConfig& config) {
  if (is_online(method)) validate_online(method, run, config);
  if (method == Method::distill) validate_distillation(run, config);
  if (method == Method::draft_head && run.parallel.tp_mode != "1d") {
    throw ConfigError(fmt::format(
        "parallel.tp_mode = \"{}\" with tune draft_head: this mode shards linear layers in pairs, "
        "but the head's first linear layer is not part of a pair; use parallel.tp_mode = \"1d\"",
        run.parallel.tp_mode));
  }
  if (run.experts.capacity_factor > 0) {
    throw ConfigError(
        "experts.capacity_factor with tune: rows are padded, so which tokens an expert accepts "
        "would depend on the other rows of a batch; leave it out");
  }
  if (method != Method::dpo && config.loss_type.size() > 1) {
    throw ConfigError(
        fmt::format("tune.loss_type = [{}]: {} supports one loss only; dpo supports several",
                    fmt::join(config.loss_type, ", "), method_name(method)));
  }
  if (!config.loss_weights.empty() && config.loss_weights.size() != config.loss_type.size()) {
    throw ConfigError(fmt::format(
        "tune.loss_weights has {} numbers for {} losses in tune.loss_type; give one for each",
        config.loss_weights.size(), config.loss_type.size()));
  }
  if (config.loss_type.empty() && !loss_types_of(method).empty()) {
    throw ConfigError("tune.loss_type is empty: give at least one loss");
  }
  const auto has = [&](const char* type) {
    return std::ranges::find(config.loss_type, type) != config.loss_type.end();
  };
  if (has("exo_pair") && (config.label_smoothing <= 0 || config.label_smoothing >= 1)) {
    throw ConfigError(fmt::format(
        "tune.loss_type = \"exo_pair\" with tune.label_smoothing = {}: the loss needs the "
        "logarithm of the smoothing; use more than 0 and less than 1, such as 0.001",
        config.label_smoothing));
  }
  if (has("robust") && config.label_smoothing >= 0.5) {
    throw ConfigError(
        fmt::format("tune.loss_type = \"robust\" with tune.label_smoothing = {}: must be from 0 to "
                    "less than 0.5; at 0.5 labels carry no information",
                    config.label_smoothing));
  }
}

}  // namespace colossal::tune
