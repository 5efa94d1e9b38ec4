// The keys of [tune]: what an alignment method is told beside a training run's keys. Names and
// defaults are those of TRL 1.16.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/booster/run_config.h"
#include "colossal/data/packing.h"
#include "colossal/tune/losses.h"

namespace colossal::tune {

enum class Method { sft, reward, dpo, kto, orpo, simpo, cpo };
std::vector<std::pair<std::string, Method>> method_names();
const char* method_name(Method method);
const char* describe_method(Method method);  // in a line, for --help

struct TuneConfig {
  double epochs = 3;
  std::optional<data::Packing> packing;  // data.packing; unset: a row is a sample
  std::vector<std::string> loss_type;    // empty: the method's
  std::vector<double> loss_weights;      // of these; empty: 1 each
  std::string chat_template = "model";   // data.chat_template, or a path
  bool completion_only_loss = true;
  bool assistant_only_loss = false;
  double beta = 0.1;
  double label_smoothing = 0;
  Divergence f_divergence_type = Divergence::reverse_kl;
  double f_alpha_divergence_coef = 0.5;
  double discopop_tau = 0.05;
  std::optional<double> ld_alpha;  // unset: all tokens count alike
  double simpo_gamma = 0.5;
  double cpo_alpha = 1;
  double alpha = 0;
  double desirable_weight = 1, undesirable_weight = 1;
  double center_rewards_coefficient = 0;
};

// Binds the keys that the method has to their places, with the method's defaults, also of keys of
// other sections ([optimizer], [train] ...), which must be described after.
void set_defaults(Method method, RunConfig& run, TuneConfig& config);
void describe(ConfigSchema& schema, Method method, TuneConfig& config);

// Throws ConfigError for values that do not go together, before anything is read.
void validate(Method method, const TuneConfig& config);

}  // namespace colossal::tune
