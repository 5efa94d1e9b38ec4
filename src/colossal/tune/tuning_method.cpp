#include "colossal/tune/tuning_method.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/resolve.h"

namespace colossal::tune {
namespace {

void describe_loss_type(ConfigSchema& schema, const TuningMethod& method, TuneConfig& config) {
  const std::vector<std::string> types = method.loss_types();
  if (types.empty()) return;
  schema.add("tune.loss_type", &config.loss_type,
             fmt::format("The loss function: {}. docs/tuning.md has the formulas.{}",
                         fmt::join(types, ", "),
                         method.sums_losses() ? " With several, their weighted sum." : ""),
             {.choices = types});
  if (!method.sums_losses()) return;
  schema.add(
      "tune.loss_weights", &config.loss_weights,
      "The weights of the losses in tune.loss_type, one for each. Empty: all weights are 1.");
}

}  // namespace

std::span<const TuningMethod* const> all_methods() {
  static const TuningMethod* const all[] = {&sft(),  &reward(),  &classify(),  &dpo(),  &kto(),
                                            &orpo(), &simpo(),   &cpo(),       &grpo(), &rloo(),
                                            &ppo(),  &distill(), &draft_head()};
  return all;
}

void set_defaults(const TuningMethod& method, RunConfig& run, TuneConfig& config) {
  run.optimizer.learning_rate = 1e-6;
  run.optimizer.adam_betas = {0.9, 0.999};
  run.optimizer.weight_decay = 0;
  run.scheduler.name = "linear";
  run.train.global_batch = 8;
  method.set_defaults(run, config);
  run.data.default_sequence_length = default_sequence_length({&method, config});
}

void describe(ConfigSchema& schema, const TuningMethod& method, TuneConfig& config) {
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
  method.describe(schema, config);
}

void validate(const TuningMethod& method, const RunConfig& run, const TuneConfig& config) {
  method.validate(run, config);
  if (run.experts.capacity_factor > 0) {
    throw ConfigError(
        "experts.capacity_factor with tune: rows are padded, so which tokens an expert accepts "
        "would depend on the other rows of a batch; leave it out");
  }
  if (!method.sums_losses() && config.loss_type.size() > 1) {
    throw ConfigError(
        fmt::format("tune.loss_type = [{}]: {} supports one loss only; dpo supports several",
                    fmt::join(config.loss_type, ", "), method.name()));
  }
  if (!config.loss_weights.empty() && config.loss_weights.size() != config.loss_type.size()) {
    throw ConfigError(fmt::format(
        "tune.loss_weights has {} numbers for {} losses in tune.loss_type; give one for each",
        config.loss_weights.size(), config.loss_type.size()));
  }
  if (config.loss_type.empty() && !method.loss_types().empty()) {
    throw ConfigError("tune.loss_type is empty: give at least one loss");
  }
}

MakeTask make_task(const Tuning& tuning) {
  return [tuning](const Job& job, const ParallelContext& context, const Reading& reading) {
    return tuning.method->make_task(job, context, tuning, reading);
  };
}

}  // namespace colossal::tune
