#include "colossal/tune/tune_config.h"

#include <algorithm>

#include "colossal/base/error.h"

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
    default:
      return {};
  }
}

double learning_rate_of(Method method) {
  if (method == Method::sft) return 2e-5;
  return method == Method::reward ? 1e-4 : 1e-6;
}

void describe_loss_type(ConfigSchema& schema, Method method, TuneConfig& config) {
  const std::vector<std::string> types = loss_types_of(method);
  if (types.empty()) return;
  schema.add("tune.loss_type", &config.loss_type,
             fmt::format("Which loss is learned by: {}. docs/tuning.md has their formulas.{}",
                         fmt::join(types, ", "),
                         method == Method::dpo ? " Of several the weighted sum." : ""),
             {.choices = types});
  if (method != Method::dpo) return;
  schema.add("tune.loss_weights", &config.loss_weights,
             "Factors of the losses in tune.loss_type, one for each. Empty: all 1.");
}

}  // namespace

std::vector<std::pair<std::string, Method>> method_names() {
  return {{"sft", Method::sft}, {"reward", Method::reward}, {"dpo", Method::dpo},
          {"kto", Method::kto}, {"orpo", Method::orpo},     {"simpo", Method::simpo},
          {"cpo", Method::cpo}};
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
      return "Learn which of two completions is better, against a reference (DPO and its kin)";
    case Method::kto:
      return "Learn from completions that are desirable or not, against a reference";
    case Method::orpo:
      return "Learn chosen completions and the odds against rejected ones, without a reference";
    case Method::simpo:
      return "Learn which of two completions is better, per token, without a reference";
    case Method::cpo:
      break;
  }
  return "Learn which of two completions is better and the better one itself, without a reference";
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
  if (method == Method::simpo) {
    config.loss_type = {"simpo"};
    config.cpo_alpha = 0;
  }
}

void describe(ConfigSchema& schema, Method method, TuneConfig& config) {
  schema.add("tune.epochs", &config.epochs,
             "How often each sample is learned from. Has no effect where train.steps is given.",
             {.minimum = 1e-6, .maximum = 1e6});
  schema.add(
      "data.chat_template", &config.chat_template,
      "What makes one text of a conversation: \"model\", the chat template of model.path, or "
      "the path of a template (.jinja).",
      {.per_rank = true});
  describe_loss_type(schema, method, config);
  if (method == Method::sft) {
    schema.add("tune.assistant_only_loss", &config.assistant_only_loss,
               "Of conversations: true learns what the assistant says only, as the template marks "
               "it with {% generation %}.");
    schema.add("data.packing", &config.packing,
               "Put several samples into a row, so that little is filled up: bfd keeps each whole "
               "and drops what of one is longer than a row, bfd_split cuts such a one, and both "
               "keep attention within samples; wrapped cuts where a row ends and does not.",
               {.unset = "none"});
    schema.add("tune.completion_only_loss", &config.completion_only_loss,
               "Of samples with a prompt and a completion: true learns the completion only, false "
               "the prompt too.");
    return;
  }
  if (method == Method::reward) {
    schema.add("tune.center_rewards_coefficient", &config.center_rewards_coefficient,
               "Weight of a term that keeps the rewards of a pair near 0 on average.",
               {.minimum = 0});
    return;
  }
  schema.add("tune.beta", &config.beta,
             method == Method::orpo
                 ? "Weight of the odds ratio beside the loss of the chosen completion."
                 : "How closely the model keeps to where it began: larger is closer.",
             {.minimum = 1e-9});
  if (method == Method::kto) {
    schema.add("tune.desirable_weight", &config.desirable_weight,
               "Factor of the loss of desirable completions.", {.minimum = 0});
    schema.add("tune.undesirable_weight", &config.undesirable_weight,
               "Factor of the loss of undesirable completions.", {.minimum = 0});
    return;
  }
  if (method == Method::orpo) return;
  schema.add("tune.label_smoothing", &config.label_smoothing,
             "Share of the pairs that may be labelled the wrong way round.",
             {.minimum = 0, .maximum = 1});
  if (method == Method::dpo) {
    schema.add("tune.f_divergence_type", &config.f_divergence_type,
               "By which divergence from the reference a completion is scored.");
    schema.add("tune.f_alpha_divergence_coef", &config.f_alpha_divergence_coef,
               "The alpha of f_divergence_type = alpha_divergence.");
    schema.add("tune.discopop_tau", &config.discopop_tau, "Temperature of loss_type = discopop.",
               {.minimum = 1e-9});
    schema.add("tune.ld_alpha", &config.ld_alpha,
               "Weight of the tokens by which one completion of a pair is longer than the other, "
               "so that length counts less.",
               {.minimum = 0, .maximum = 1, .unset = "1"});
    return;
  }
  schema.add("tune.simpo_gamma", &config.simpo_gamma,
             "With the simpo loss, by how much the chosen completion shall be ahead.");
  schema.add("tune.cpo_alpha", &config.cpo_alpha,
             "Weight of the chosen completion's own loss, per token.", {.minimum = 0});
  schema.add("tune.alpha", &config.alpha,
             "Of AlphaPO's rewards: how much they bend; 0 takes log-probabilities.");
}

void validate(Method method, const TuneConfig& config) {
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
