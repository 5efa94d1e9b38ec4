#include "colossal/tune/tune_config.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/tune/rewards.h"

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
  return method == Method::reward ? 1e-4 : 1e-6;
}

void describe_loss_type(ConfigSchema& schema, Method method, TuneConfig& config) {
  const std::vector<std::string> types = loss_types_of(method);
  if (types.empty()) return;
  schema.add("tune.loss_type", &config.loss_type,
             fmt::format("The loss: {}. docs/tuning.md has the formulas.{}", fmt::join(types, ", "),
                         method == Method::dpo ? " Of several, their weighted sum." : ""),
             {.choices = types});
  if (method != Method::dpo) return;
  schema.add("tune.loss_weights", &config.loss_weights,
             "The weights of the losses in tune.loss_type, one for each. Empty: all 1.");
}

void describe_groups(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.num_generations", &config.num_generations,
             "How many completions of each prompt to sample and compare with each other. "
             "train.global_batch counts completions.",
             {.unit = "completions", .minimum = 2});
  schema.add("tune.dynamic_sampling", &config.dynamic_sampling,
             "true: leave out groups whose rewards are all equal, as they teach nothing, and "
             "sample further prompts instead (DAPO).");
  schema.add("tune.max_sampling_rounds", &config.max_sampling_rounds,
             "How many times tune.dynamic_sampling samples for one generation at most.",
             {.minimum = 1});
}

void describe_values(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.vf_coef", &config.vf_coef, "The weight of the loss of the value head.",
             {.minimum = 0});
  schema.add("tune.cliprange_value", &config.cliprange_value,
             "The clip range of the value loss: how far a value may move from what it was when its "
             "completion was sampled.",
             {.minimum = 0});
  schema.add("tune.gamma", &config.gamma,
             "The discount of generalized advantage estimation: how much a reward counts one token "
             "earlier.",
             {.minimum = 0, .maximum = 1});
  schema.add("tune.lam", &config.lam,
             "The lambda of generalized advantage estimation. 1: advantages follow from the "
             "rewards alone, and vary more. 0: from the next predicted value.",
             {.minimum = 0, .maximum = 1});
  schema.add("tune.whiten_rewards", &config.whiten_rewards,
             "true: scale the rewards of tokens to standard deviation 1 over a generation.");
  schema.add("tune.missing_eos_penalty", &config.missing_eos_penalty,
             "Subtracted from the reward of a completion that was cut before it ended.");
}

void describe_sampling(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.max_completion_length", &config.max_completion_length,
             "The most tokens of a completion; a longer one is cut.",
             {.unit = "tokens", .minimum = 1});
  schema.add("tune.temperature", &config.temperature,
             "Divides logits when completions are sampled and when their probabilities are "
             "compared. Smaller: completions vary less.",
             {.minimum = 1e-6});
  schema.add("tune.top_k", &config.top_k, "Sample from the k most likely tokens only. 0: from all.",
             {.minimum = 0});
  schema.add("tune.top_p", &config.top_p,
             "Sample from the fewest tokens whose probabilities sum to this. 1: from all.",
             {.minimum = 1e-9, .maximum = 1});
  schema.add("tune.min_p", &config.min_p,
             "Sample only from tokens at least this many times as likely as the most likely one. "
             "0: from all.",
             {.minimum = 0, .maximum = 1});
  schema.add("tune.repetition_penalty", &config.repetition_penalty,
             "Above 1: tokens that have occurred become less likely. 1: no penalty.",
             {.minimum = 1e-6});
  schema.add("tune.batch_invariant", &config.batch_invariant,
             "true: a completion has the same bits whatever is sampled beside it, and so at every "
             "layout. Sampling is slower.");
}

void describe_distillation(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.teacher", &config.teacher,
             "The folder of the model to learn from. It needs the same vocabulary, and may be of "
             "another size or family.",
             {.per_rank = true});
  schema.add("tune.beta", &config.beta,
             "Which divergence from the teacher the loss is. 0: KL(teacher || model). 1: "
             "KL(model || teacher), the reverse. Between: the generalized Jensen-Shannon "
             "divergence.",
             {.minimum = 0, .maximum = 1});
  schema.add("tune.lmbda", &config.lmbda,
             "The share of steps that learn from completions which the model samples itself. The "
             "others learn from those of data.train.",
             {.minimum = 0, .maximum = 1});
  describe_sampling(schema, config);
}

void describe_rewards(ConfigSchema& schema, TuneConfig& config) {
  schema.add(
      "tune.reward", &config.reward,
      "What completions are rewarded for. Built in: accuracy, format, length, repetition, "
      "overlong. A reward model: \"model:DIR\". Of your own: \"command:PROGRAM\" (lines of JSON "
      "in, numbers out) or \"http://HOST:PORT/PATH\". Several are added up.");
  schema.add("tune.reward_weights", &config.reward_weights,
             "The weights of the rewards in tune.reward, one for each. Empty: all 1.");
  schema.add("tune.reward_timeout", &config.reward_timeout,
             "How long a program or an address may take for a batch. If it fails or takes longer, "
             "the log says so, and the completions go without its reward.",
             {.unit = "seconds", .minimum = 1e-3});
  schema.add(
      "tune.overlong_tokens", &config.overlong_tokens,
      "How many tokens before tune.max_completion_length the reward overlong begins to fall.",
      {.unit = "tokens", .minimum = 1});
}

void describe_staleness(ConfigSchema& schema, TuneConfig& config) {
  schema.add("tune.max_staleness", &config.max_staleness,
             "How many generations before they are learned from completions are begun. They go on "
             "beside each update with the weights from before it, so that no generation waits for "
             "its longest completion. 0: all is sampled with the newest weights.",
             {.unit = "generations", .minimum = 0});
  schema.add("tune.overlap_sampling", &config.overlap_sampling,
             "true: with tune.max_staleness, sample while the forward and backward passes of "
             "updates run. false: before them. The numbers are the same. With parallel.zero = 3, "
             "memory.offload_parameters and on a GPU it is false.");
  schema.add(
      "tune.importance_sampling_mode", &config.importance_sampling_mode,
      "What corrects for tokens that were sampled with other weights or kernels. token_*: the "
      "loss of a token is multiplied by its ratio of the trainer's to the sampler's "
      "probability. sequence_*: by that of its whole completion. *_truncate: ratios beyond "
      "the bounds count as these. *_mask: as 0.",
      {.unset = "sequence_mask with tune.max_staleness, else none"});
  schema.add("tune.importance_sampling_clip_max", &config.importance_sampling_clip_max,
             "The largest ratio of tune.importance_sampling_mode.", {.minimum = 0});
  schema.add("tune.importance_sampling_clip_min", &config.importance_sampling_clip_min,
             "The smallest ratio of tune.importance_sampling_mode.",
             {.minimum = 0, .unset = "none"});
}

void describe_updates(ConfigSchema& schema, Method method, TuneConfig& config) {
  describe_staleness(schema, config);
  schema.add("tune.beta", &config.beta,
             method != Method::grpo
                 ? "How much divergence from the model at the start lowers the reward."
                 : "How much divergence from the model at the start adds to the loss. 0: nothing, "
                   "and no reference is kept.",
             {.minimum = 0});
  schema.add("tune.epsilon", &config.epsilon,
             "How far below 1 the ratio of a token's new to its old probability counts; beyond "
             "that it is clipped.",
             {.minimum = 0});
  schema.add("tune.epsilon_high", &config.epsilon_high,
             "How far above 1 the ratio counts. With loss_type = cispo: the largest ratio.",
             {.minimum = 0, .unset = "tune.epsilon"});
  schema.add("tune.num_iterations", &config.num_iterations,
             "How many times each completion is learned from.", {.minimum = 1});
  schema.add("tune.steps_per_generation", &config.steps_per_generation,
             "For how many steps completions are sampled at once, train.global_batch for each.",
             {.unit = "steps", .minimum = 1});
  schema.add("tune.mask_truncated_completions", &config.mask_truncated_completions,
             "true: learn nothing from completions that were cut.");
  if (method == Method::ppo) return describe_values(schema, config);
  if (method == Method::rloo) {
    schema.add(
        "tune.normalize_advantages", &config.normalize_advantages,
        "true: shift and scale the advantages of a generation to mean 0 and standard deviation 1.");
    schema.add(
        "tune.reward_clip_range", &config.reward_clip_range,
        "The lowest and the highest reward; rewards beyond count as these. Empty: no limits.");
    return;
  }
  schema.add(
      "tune.delta", &config.delta,
      "Upper bound of the ratio of new to old probability, whatever the sign of the advantage.",
      {.minimum = 0, .unset = "none"});
  schema.add("tune.importance_sampling_level", &config.importance_sampling_level,
             "token: each token has its own ratio of new to old probability. sequence: all tokens "
             "of a completion have the geometric mean of theirs (GSPO).");
  schema.add("tune.scale_rewards", &config.scale_rewards,
             "What advantages are divided by. group: the standard deviation of the group's "
             "rewards. batch: that of the generation's. none: nothing.");
  schema.add("tune.use_bias_correction_kl", &config.use_bias_correction_kl,
             "true: multiply a token's divergence by its ratio of new to old probability.");
}

void validate_staleness(Method method, const TuneConfig& config) {
  if (config.dynamic_sampling && config.max_staleness > 0) {
    throw ConfigError(fmt::format(
        "tune.dynamic_sampling with tune.max_staleness = {}: which prompts fill a generation is "
        "known only when their completions have been rewarded, too late to begin them earlier; use "
        "one of the two",
        config.max_staleness));
  }
  const ImportanceCorrection correction = config.correction();
  const bool has_bounds =
      config.importance_sampling_clip_min ||
      config.importance_sampling_clip_max != TuneConfig().importance_sampling_clip_max;
  if (has_bounds && correction == ImportanceCorrection::none) {
    throw ConfigError(
        "tune.importance_sampling_clip_min and tune.importance_sampling_clip_max bound the ratios "
        "of "
        "a tune.importance_sampling_mode, and that is none; choose one, or leave them out");
  }
  if (method == Method::rloo && correction != ImportanceCorrection::none &&
      !is_of_sequences(correction)) {
    throw ConfigError(
        "tune.importance_sampling_mode is one of tokens: rloo has one loss for a whole completion; "
        "use sequence_truncate or sequence_mask");
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
    throw ConfigError(fmt::format(
        "tune.reward is empty: {} learns from rewards; give one or more of {}, \"model:DIR\", "
        "\"command:PROGRAM\" and \"http://HOST:PORT/PATH\"",
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
        "tune.reward_clip_range = [{}]: give the lowest and the highest reward, or nothing",
        fmt::join(config.reward_clip_range, ", ")));
  }
  if (run.train.global_batch * config.steps_per_generation % config.num_generations != 0) {
    throw ConfigError(fmt::format(
        "train.global_batch = {} times tune.steps_per_generation = {} is no multiple of "
        "tune.num_generations = {}: a generation is whole groups; use train.global_batch = {}",
        run.train.global_batch, config.steps_per_generation, config.num_generations,
        (run.train.global_batch / config.num_generations + 1) * config.num_generations));
  }
  validate_staleness(method, config);
  if (config.overlong_tokens > config.max_completion_length &&
      std::ranges::find(config.reward, "overlong") != config.reward.end()) {
    throw ConfigError(fmt::format(
        "tune.overlong_tokens = {} with tune.max_completion_length = {}: the reward would fall "
        "before the first token; use {} at most",
        config.overlong_tokens, config.max_completion_length, config.max_completion_length));
  }
  if (config.delta && *config.delta <= 1 + config.highest_epsilon()) {
    throw ConfigError(fmt::format(
        "tune.delta = {}: it bounds ratios beyond 1 + tune.epsilon_high = {}; use more than that",
        *config.delta, 1 + config.highest_epsilon()));
  }
  if (!run.data.validation.empty()) {
    throw ConfigError(fmt::format(
        "data.validation with tune {}: a loss of held-out prompts says nothing of completions that "
        "the model makes itself; leave it out, and watch reward in metrics.jsonl",
        name));
  }
}

void validate_distillation(const RunConfig& run, const TuneConfig& config) {
  if (config.teacher.empty()) {
    throw ConfigError(
        "tune.teacher is empty: distill learns from another model; give the folder of one");
  }
  if (config.lmbda == 1 && !run.data.validation.empty()) {
    throw ConfigError(
        "data.validation with tune.lmbda = 1: lines are prompts without completions then, and "
        "there "
        "is nothing to compare; leave it out, or use a tune.lmbda below 1 and completions");
  }
}

}  // namespace

std::vector<std::pair<std::string, Method>> method_names() {
  return {{"sft", Method::sft}, {"reward", Method::reward},   {"dpo", Method::dpo},
          {"kto", Method::kto}, {"orpo", Method::orpo},       {"simpo", Method::simpo},
          {"cpo", Method::cpo}, {"grpo", Method::grpo},       {"rloo", Method::rloo},
          {"ppo", Method::ppo}, {"distill", Method::distill}, {"draft_head", Method::draft_head}};
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
      return "Supervised fine-tuning: learn texts, or completions of prompts";
    case Method::reward:
      return "Train a reward model: a number for each text, higher for the better of two";
    case Method::dpo:
      return "Learn which of two completions is better, relative to a reference model (DPO, "
             "variants)";
    case Method::kto:
      return "Learn from single completions, desirable or not, relative to a reference model (KTO)";
    case Method::orpo:
      return "Learn chosen completions, and to prefer them to rejected ones; no reference model "
             "(ORPO)";
    case Method::simpo:
      return "Learn which of two completions is better, by means over tokens; no reference model "
             "(SimPO)";
    case Method::grpo:
      return "Reinforcement learning: compare the rewards of sampled completions in groups (GRPO, "
             "DAPO)";
    case Method::rloo:
      return "Reinforcement learning: compare each sampled completion with the others' mean (RLOO)";
    case Method::ppo:
      return "Reinforcement learning from rewards of sampled completions, with a value head (PPO)";
    case Method::distill:
      return "Distillation: learn a larger model's probabilities, on completions of one's own "
             "(GKD)";
    case Method::draft_head:
      return "Train a small head that guesses a model's next tokens from its states, for "
             "--speculate=eagle (EAGLE)";
    case Method::cpo:
      break;
  }
  return "Learn which of two completions is better, and the better one itself; no reference model "
         "(CPO)";
}

void set_defaults(Method method, RunConfig& run, TuneConfig& config) {
  run.optimizer.learning_rate = learning_rate_of(method);
  run.optimizer.betas = {0.9, 0.999};
  run.optimizer.weight_decay = 0;
  run.scheduler.name = "linear";
  run.train.global_batch = 8;
  if (method == Method::dpo || method == Method::kto || method == Method::reward) {
    run.train.dropout = 0;
  }
  run.model.score_head = method == Method::reward;
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
  schema.add("tune.epochs", &config.epochs,
             "How many times each sample is learned from. Has no effect if train.steps is given.",
             {.minimum = 1e-6, .maximum = 1e6});
  schema.add("data.chat_template", &config.chat_template,
             "What turns a conversation into one text. \"model\": the chat template of model.path. "
             "A path: a template file (.jinja).",
             {.per_rank = true});
  describe_loss_type(schema, method, config);
  if (method == Method::sft) {
    schema.add("tune.assistant_only_loss", &config.assistant_only_loss,
               "For conversations. true: learn only what the assistant says, as the template marks "
               "it with {% generation %}.");
    schema.add("data.packing", &config.packing,
               "Put several samples into a row, so that little is padding. bfd: a sample longer "
               "than a row loses its end. bfd_split: it is cut into several. With both, attention "
               "stays within samples. wrapped: samples are cut where a row ends, and attention "
               "does not stay within them.",
               {.unset = "none"});
    schema.add("tune.completion_only_loss", &config.completion_only_loss,
               "For samples with a prompt and a completion. true: learn only the completion. "
               "false: learn the prompt too.");
    return;
  }
  if (method == Method::distill) return describe_distillation(schema, config);
  if (method == Method::draft_head) {
    schema.add("tune.teacher", &config.teacher,
               "The folder of the model to guess for. Empty: that of model.path. Give it where "
               "model.path is the folder of a head that is to be trained further.",
               {.per_rank = true});
    return;
  }
  if (is_online(method)) {
    describe_sampling(schema, config);
    schema.add(
        "tune.log_completions", &config.log_completions,
        "true: append completions with their rewards to completions.jsonl in log.directory.");
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
          ? "The weight of the odds-ratio loss beside the loss of the chosen completion."
      : method == Method::dpo || method == Method::kto
          ? "How closely the model stays to the reference: larger is closer."
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
             "What share of the pairs may be labelled the wrong way round.",
             {.minimum = 0, .maximum = 1});
  if (method == Method::dpo) {
    schema.add("tune.f_divergence_type", &config.f_divergence_type,
               "The divergence from the reference by which completions are scored.");
    schema.add("tune.f_alpha_divergence_coef", &config.f_alpha_divergence_coef,
               "The alpha of f_divergence_type = alpha_divergence.");
    schema.add("tune.discopop_tau", &config.discopop_tau,
               "The temperature of loss_type = discopop.", {.minimum = 1e-9});
    schema.add("tune.ld_alpha", &config.ld_alpha,
               "The weight of the tokens by which one completion of a pair is longer than the "
               "other. Below 1: length counts less.",
               {.minimum = 0, .maximum = 1, .unset = "1"});
    return;
  }
  schema.add("tune.simpo_gamma", &config.simpo_gamma,
             "With loss_type = simpo: by how much the chosen completion should be ahead.");
  schema.add("tune.cpo_alpha", &config.cpo_alpha,
             "The weight of the chosen completion's own loss, per token.", {.minimum = 0});
  schema.add("tune.alpha", &config.alpha,
             "How strongly AlphaPO bends rewards away from log-probabilities. 0: they are "
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
    throw ConfigError(
        fmt::format("parallel.tp_mode = \"{}\" with tune draft_head: these modes cut products in "
                    "pairs, and the "
                    "head's first product stands alone; parallel.tp_mode = \"1d\" works",
                    run.parallel.tp_mode));
  }
  if (run.experts.capacity_factor > 0) {
    throw ConfigError(
        "experts.capacity_factor with tune: rows are padded, and what an expert takes of a row "
        "would "
        "depend on those beside it; leave it out");
  }
  if (method != Method::dpo && config.loss_type.size() > 1) {
    throw ConfigError(
        fmt::format("tune.loss_type = [{}]: {} learns by one loss; dpo adds several up",
                    fmt::join(config.loss_type, ", "), method_name(method)));
  }
  if (!config.loss_weights.empty() && config.loss_weights.size() != config.loss_type.size()) {
    throw ConfigError(
        fmt::format("tune.loss_weights has {} numbers for {} losses in tune.loss_type; "
                    "give one for each",
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
        "tune.loss_type = \"exo_pair\" with tune.label_smoothing = {}: it takes the logarithm of "
        "the smoothing; use more than 0 and less than 1, such as 0.001",
        config.label_smoothing));
  }
  if (has("robust") && config.label_smoothing >= 0.5) {
    throw ConfigError(
        fmt::format("tune.loss_type = \"robust\" with tune.label_smoothing = {}: from 0 to less "
                    "than 0.5, as at "
                    "a half the labels say nothing",
                    config.label_smoothing));
  }
}

}  // namespace colossal::tune
