#include "colossal/engine/booster.h"

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"

namespace colossal {
namespace {

void refuse_axes(const Strategy& strategy, bool in_parts) {
  const int pp = in_parts ? 1 : strategy.pp;
  if (strategy.tp * strategy.sp * pp == 1) return;
  throw ConfigError(fmt::format(
      "pp {} x sp {} x tp {}: your own module supports replicas (dp) and, if it is given in parts, "
      "pipelines (pp) only; build it from colossal::nn, or use dp = {}",
      strategy.pp, strategy.sp, strategy.tp, strategy.world_size() / (in_parts ? strategy.pp : 1)));
}

// Collects the parameters of modules, in the order in which the modules are added.
class ForeignParameters {
 public:
  explicit ForeignParameters(const ParallelContext& context) : context_(context) {}

  void add(const torch::nn::Module& module, const std::string& prefix, int stage) {
    warn_of_dropout(module);
    const at::NoGradGuard no_grad;
    for (const auto& item : module.named_parameters()) {
      const std::string name = prefix + item.key();
      if (is_known(name, item.value(), stage)) continue;
      auto parameter = std::make_shared<nn::Parameter>();
      parameter->name = name;
      parameter->shape = item.value().sizes().vec();
      parameter->trainable = item.value().requires_grad();
      parameter->placement.stage = stage;
      parameter->tensor = item.value();
      if (context_.holds_stage(stage)) {
        take_over(*parameter);
      } else {
        parameter->tensor.set_data(at::empty({0}, item.value().options()));
      }
      list_.emplace_back(std::move(parameter));
    }
  }

  nn::ParameterList take() { return std::move(list_); }

 private:
  struct Place {
    std::string name;
    int stage;
  };

  // Returns whether another module has added this tensor. Throws ConfigError if the two modules are
  // in different stages.
  bool is_known(const std::string& name, const at::Tensor& tensor, int stage) {
    const auto [found, is_new] =
        places_.try_emplace(tensor.unsafeGetTensorImpl(), Place{name, stage});
    if (is_new || found->second.stage == stage) return !is_new;
    throw ConfigError(
        fmt::format("{} and {} are one parameter, in stages {} and {} of the pipeline; cut the "
                    "model so that one stage has both, or give each its own parameter",
                    found->second.name, name, found->second.stage, stage));
  }

  // Gives all replicas the values of the first replica.
  void take_over(nn::Parameter& parameter) const {
    at::Tensor values = parameter.tensor.detach().contiguous().view(-1);
    comm::broadcast(values, 0, context_.data_group(), comm::Reason::parameter);
    parameter.tensor.set_data(values.view(parameter.shape));
  }

  void warn_of_dropout(const torch::nn::Module& module) {
    if (warned_ || context_.rank() != 0 || context_.world().size() == 1) return;
    std::vector<std::string> names{module.name()};
    for (const auto& child : module.modules(/*include_self=*/false)) names.push_back(child->name());
    for (const std::string& name : names) {
      if (name.find("Dropout") == std::string::npos) continue;
      log::warn(
          "{} uses LibTorch's random number generator, so results depend on the number of ranks",
          name);
      warned_ = true;
      return;
    }
  }

  const ParallelContext& context_;
  nn::ParameterList list_;
  std::map<const at::TensorImpl*, Place> places_;
  bool warned_ = false;
};

}  // namespace

std::unique_ptr<Engine> Booster::boost(const nn::ParameterList& parameters, StagedModel model,
                                       EngineConfig config) const {
  auto engine = std::make_unique<Engine>(parameters, std::move(model), context_, config);
  engine->chunks().initialise(config.seed);
  return engine;
}

std::unique_ptr<Engine> Booster::boost(torch::nn::Module& module, LossFunction loss,
                                       EngineConfig config) const {
  refuse_axes(context_.strategy(), /*in_parts=*/false);
  ForeignParameters parameters(context_);
  parameters.add(module, /*prefix=*/"", /*stage=*/0);
  config.uses_parameter_handles = false;
  return std::make_unique<Engine>(parameters.take(), std::move(loss), context_, config);
}

std::unique_ptr<Engine> Booster::boost(const std::vector<ModulePart>& parts,
                                       EngineConfig config) const {
  const Strategy& strategy = context_.strategy();
  refuse_axes(strategy, /*in_parts=*/true);
  const std::vector<int64_t> counts = parts_of_stages(strategy, std::ssize(parts));
  ForeignParameters parameters(context_);
  size_t part = 0;
  for (int stage = 0; stage < strategy.num_stages(); ++stage) {
    for (int64_t i = 0; i < counts[stage]; ++i, ++part) {
      parameters.add(*parts[part].module, fmt::format("{}.", part), stage);
    }
  }
  config.uses_parameter_handles = false;
  return std::make_unique<Engine>(parameters.take(), stages_of(parts, counts), context_, config);
}

}  // namespace colossal
