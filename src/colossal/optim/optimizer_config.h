// OptimizerConfig: the "optimizer" table of a job's configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "colossal/base/config_value.h"

namespace colossal::optim {

// Settings for the parameters whose name matches a pattern.
struct GroupConfig {
  std::string pattern;                 // regular expression, found anywhere in the parameter's name
  std::optional<std::string> name;     // optimizer; nullopt: OptimizerConfig::name
  double learning_rate_scale = 1;      // factor of the learning rate
  std::optional<double> weight_decay;  // nullopt: OptimizerConfig::weight_decay
  bool frozen = false;                 // the parameters are not trained
  // If not empty, the names of the group's parameters: a program has a list in place of a pattern.
  std::set<std::string> parameters{};
  bool operator==(const GroupConfig&) const = default;
};

}  // namespace colossal::optim

// A group in a configuration file: {pattern = "norm|bias", weight_decay = 0}.
template <>
struct colossal::ConfigType<colossal::optim::GroupConfig>
    : PlainConfigType<colossal::optim::GroupConfig> {
  static TypeDescription describe(const KeyOptions& options);
  static optim::GroupConfig read(const nlohmann::json& found, const KeyOptions& options);
  static nlohmann::json show(const optim::GroupConfig& group);
};

namespace colossal::optim {

// Where nullopt is allowed, it stands for the optimizer's own default (default_settings()).
struct OptimizerConfig {
  std::string name = "adamw";                // one of optimizer_names()
  double learning_rate = 3e-4;               // peak of the schedule (schedule.h)
  double weight_decay = 0.1;                 // applied to parameters with two or more dims
  std::optional<std::vector<double>> betas;  // decay rates of the running averages
  std::vector<double> adam_betas{
      0.9, 0.95};                   // the betas of optimizers with has_adam_betas(), by default
  std::optional<double> eps;        // added to denominators
  std::optional<double> momentum;   // of sgd, lars and muon
  bool nesterov = false;            // of sgd; Muon always has it
  double trust_coefficient = 1e-3;  // of lars
  double clip_threshold = 1;        // of adafactor and came: largest root mean square of an update
  bool scale_by_parameter =
      true;  // of adafactor: multiply the rate by the root mean square of weights
  int newton_schulz_steps = 5;  // of muon
  // Of muon: factor of the orthogonal matrix. "match_rms_adamw": 0.2 * sqrt(max(outputs, inputs)).
  // "original": sqrt(max(1, outputs / inputs)).
  std::string muon_scale = "match_rms_adamw";
  int64_t rank = 128;                 // of galore: rank of the projection
  int64_t projection_interval = 200;  // of galore: updates between computations of the projection
  double projection_scale = 0.25;     // of galore: factor of the update
  // Later groups win for a parameter that several patterns match.
  std::vector<GroupConfig> groups;
};

// Returns the names of all optimizers.
std::vector<std::string> optimizer_names();

// The defaults of an optimizer. A setting that it does not have is nullopt.
struct DefaultSettings {
  std::optional<std::vector<double>> betas = {};
  std::optional<double> eps = {};
  std::optional<double> momentum = {};
};
// Returns the settings that an optimizer of this configuration uses: those that are set, else the
// optimizer's defaults. Throws ConfigError for an unknown name.
DefaultSettings used_settings(const std::string& name, const OptimizerConfig& config);
// Returns whether OptimizerConfig::adam_betas replace DefaultSettings::betas as the optimizer's
// default.
bool has_adam_betas(const std::string& name);
// Returns whether make_optimizer() depends on its argument `matrix`.
bool treats_matrices_apart(const std::string& name);
// Throws ConfigError for an unknown name.
DefaultSettings default_settings(const std::string& name);

}  // namespace colossal::optim
