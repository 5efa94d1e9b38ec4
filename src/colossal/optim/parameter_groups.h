// ParameterGroups: which optimizer updates each parameter of a model, with which settings.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/parameter.h"
#include "colossal/optim/optimizer.h"

namespace colossal::optim {

// How a parameter is updated.
struct UpdateRule {
  const Optimizer* optimizer;      // owned by the ParameterGroups
  double learning_rate_scale = 1;  // factor of the schedule's learning rate
  double weight_decay = 0;
  bool frozen = false;
};

class ParameterGroups {
 public:
  // Throws ConfigError for unknown names, settings that none of the optimizers has or that are out
  // of range, and patterns that are no regular expressions.
  explicit ParameterGroups(const OptimizerConfig& config);

  // Returns the rule of a parameter. The last group whose pattern matches its name overrides
  // OptimizerConfig. Unless this group sets a weight decay, parameters with fewer than two dims
  // have none. muon and galore update the weights of linear layers and of experts, but no head.
  // lamb and lars update tensors with two or more dims. Where such an optimizer is chosen for
  // another parameter, adamw (for lars: sgd) updates it, with the same betas, eps and momentum.
  UpdateRule rule(const nn::Parameter& parameter) const;

  // Freezes the parameters of frozen groups. parameters: those of the whole model. Throws
  // ConfigError if a group matches none of them, if an optimizer that updates matrices has none, or
  // if no parameter is left to train.
  void apply(const nn::ParameterList& parameters) const;

  const std::string& name() const { return config_.name; }  // of the optimizer outside groups

 private:
  struct Group {
    std::regex pattern;
    const GroupConfig* config;
    bool has(const nn::Parameter& parameter) const;
  };
  const Group* group_of(const nn::Parameter& parameter) const;
  bool needs_matrices(const std::string& name) const;
  void refuse_without_matrices(const nn::ParameterList& parameters) const;

  OptimizerConfig config_;
  std::vector<Group> groups_;
  // By name, and by the argument `matrix` of make_optimizer().
  std::map<std::pair<std::string, bool>, std::shared_ptr<const Optimizer>> optimizers_;
};

}  // namespace colossal::optim
