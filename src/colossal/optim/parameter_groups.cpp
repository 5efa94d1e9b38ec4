#include "colossal/optim/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <ranges>
#include <set>

#include "colossal/base/error.h"

namespace colossal::optim {
namespace {

std::set<std::string> names_in(const OptimizerConfig& config) {
  std::set<std::string> names{config.name};
  for (const GroupConfig& group : config.groups) {
    if (group.name) names.insert(*group.name);
  }
  return names;
}

// Throws ConfigError if a setting is given that no optimizer in use has.
void refuse_unused(const OptimizerConfig& config, const std::set<std::string>& names) {
  const auto any_has = [&](const auto& setting) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      return (default_settings(name).*setting).has_value();
    });
  };
  const auto require = [&](const char* key, bool given, bool has) {
    if (given && !has) {
      throw ConfigError(fmt::format("optimizer.{}: {} has no such setting; leave it out", key,
                                    fmt::join(names, ", ")));
    }
  };
  require("betas", config.betas.has_value(), any_has(&DefaultSettings::betas));
  require("eps", config.eps.has_value(), any_has(&DefaultSettings::eps));
  require("momentum", config.momentum.has_value(), any_has(&DefaultSettings::momentum));
  // Other settings count as given if they differ from their defaults.
  const OptimizerConfig unset;
  const auto differs = [&](const auto& setting) { return config.*setting != unset.*setting; };
  const auto any_of = [&](std::initializer_list<const char*> owners) {
    return std::ranges::any_of(owners, [&](const char* owner) { return names.contains(owner); });
  };
  using Config = OptimizerConfig;
  require("nesterov", differs(&Config::nesterov), any_of({"sgd", "lars"}));
  require("trust_coefficient", differs(&Config::trust_coefficient), any_of({"lars"}));
  require("clip_threshold", differs(&Config::clip_threshold), any_of({"adafactor", "came"}));
  require("scale_by_parameter", differs(&Config::scale_by_parameter), any_of({"adafactor"}));
  require("newton_schulz_steps", differs(&Config::newton_schulz_steps), any_of({"muon"}));
  require("muon_scale", differs(&Config::muon_scale), any_of({"muon"}));
  require("rank", differs(&Config::rank), any_of({"galore"}));
  require("projection_interval", differs(&Config::projection_interval), any_of({"galore"}));
  require("projection_scale", differs(&Config::projection_scale), any_of({"galore"}));
}

std::regex compiled(const std::string& pattern) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error&) {
    throw ConfigError(fmt::format(
        "optimizer.groups: pattern \"{}\" is not a regular expression; for example \"norm|bias\"",
        pattern));
  }
}

}  // namespace

ParameterGroups::ParameterGroups(const OptimizerConfig& config) : config_(config) {
  if (!(config.learning_rate >= 0)) {
    throw ConfigError(
        fmt::format("optimizer.learning_rate = {}: must not be negative", config.learning_rate));
  }
  const std::set<std::string> names = names_in(config_);
  for (const std::string& name : names) {
    // One object where it updates all tensors alike, so that they share chunks.
    const std::shared_ptr<const Optimizer> of_matrices = make_optimizer(name, config_, true);
    optimizers_[{name, true}] = of_matrices;
    optimizers_[{name, false}] =
        treats_matrices_apart(name) ? make_optimizer(name, config_, false) : of_matrices;
  }
  refuse_unused(config_, names);
  for (const GroupConfig& group : config_.groups) {
    groups_.push_back({compiled(group.pattern), &group});
  }
}

bool ParameterGroups::Group::has(const nn::Parameter& parameter) const {
  return config->parameters.empty() ? std::regex_search(parameter.name, pattern)
                                    : config->parameters.contains(parameter.name);
}

const ParameterGroups::Group* ParameterGroups::group_of(const nn::Parameter& parameter) const {
  for (const Group& group : std::views::reverse(groups_)) {
    if (group.has(parameter)) return &group;
  }
  return nullptr;
}

UpdateRule ParameterGroups::rule(const nn::Parameter& parameter) const {
  const Group* group = group_of(parameter);
  const std::string& name = group && group->config->name ? *group->config->name : config_.name;
  const bool matrix = needs_matrices(name)
                          ? parameter.product && parameter.role != nn::ParameterRole::head_table
                          : parameter.shape.size() >= 2;
  UpdateRule rule{.optimizer = optimizers_.at({name, matrix}).get()};
  rule.weight_decay = parameter.shape.size() >= 2 ? config_.weight_decay : 0;
  if (group) {
    rule.learning_rate_scale = group->config->learning_rate_scale;
    rule.weight_decay = group->config->weight_decay.value_or(rule.weight_decay);
    rule.frozen = group->config->frozen;
  }
  return rule;
}

bool ParameterGroups::needs_matrices(const std::string& name) const {
  return optimizers_.at({name, true})->as_matrix_optimizer() != nullptr;
}

// Throws ConfigError if an optimizer that updates matrices has none.
void ParameterGroups::refuse_without_matrices(const nn::ParameterList& parameters) const {
  const auto refuse = [](const std::string& setting) {
    throw ConfigError(fmt::format(
        "{}: it updates the weights of linear layers and of experts, but no embedding, head or "
        "adapter, and this model trains no other; use adamw",
        setting));
  };
  const auto any_updates_matrices = [&](const Group* of_group) {
    return std::ranges::any_of(parameters, [&](const nn::ParameterHandle& parameter) {
      return group_of(*parameter) == of_group && rule(*parameter).optimizer->as_matrix_optimizer();
    });
  };
  if (needs_matrices(config_.name) && !any_updates_matrices(nullptr)) {
    refuse(fmt::format("optimizer.name = \"{}\"", config_.name));
  }
  for (const Group& group : groups_) {
    if (!group.config->name || !needs_matrices(*group.config->name)) continue;
    if (any_updates_matrices(&group)) continue;
    refuse(fmt::format("optimizer.groups: \"{}\" for \"{}\"", *group.config->name,
                       group.config->pattern));
  }
}

void ParameterGroups::apply(const nn::ParameterList& parameters) const {
  for (const Group& group : groups_) {
    const auto matches = [&](const nn::ParameterHandle& parameter) {
      return group.has(*parameter);
    };
    if (std::ranges::any_of(parameters, matches)) continue;
    std::vector<std::string> examples;
    for (size_t i = 0; i < parameters.size(); i += parameters.size() / 5 + 1) {
      examples.push_back(parameters[i]->name);
    }
    throw ConfigError(
        fmt::format("optimizer.groups: no parameter matches \"{}\"; parameters are {}, ...",
                    group.config->pattern, fmt::join(examples, ", ")));
  }
  refuse_without_matrices(parameters);
  bool any_trained = false;
  for (const nn::ParameterHandle& parameter : parameters) {
    if (rule(*parameter).frozen) parameter->trainable = false;
    any_trained = any_trained || parameter->trainable;
  }
  if (!any_trained && !groups_.empty()) {
    throw ConfigError("optimizer.groups: all parameters are frozen; train at least one");
  }
}

}  // namespace colossal::optim
