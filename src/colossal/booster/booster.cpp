#include "colossal/booster/booster.h"

#include <torch/nn/module.h>

#include "colossal/base/error.h"
#include "colossal/base/log.h"

namespace colossal {
namespace {

void warn_of_dropout(const torch::nn::Module& module) {
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (child->name().find("Dropout") == std::string::npos) continue;
    log::warn("{} draws LibTorch's random numbers: with it, results depend on the number of ranks",
              child->name());
    return;
  }
}

}  // namespace

std::unique_ptr<Engine> Booster::boost(const nn::ParameterList& parameters, LossFunction loss,
                                       EngineConfig config) const {
  auto engine = std::make_unique<Engine>(parameters, std::move(loss), context_, config);
  engine->chunks().initialise(config.seed);
  return engine;
}

std::unique_ptr<Engine> Booster::boost(torch::nn::Module& module, LossFunction loss,
                                       EngineConfig config) const {
  const Strategy& strategy = context_.strategy();
  if (strategy.tp * strategy.sp * strategy.pp > 1) {
    throw ConfigError(fmt::format(
        "pp {} x sp {} x tp {}: a module of your own trains over replicas (dp) only; build it from "
        "colossal::nn, or use dp = {}",
        strategy.pp, strategy.sp, strategy.tp, strategy.world_size()));
  }
  if (context_.rank() == 0 && context_.world().size() > 1) warn_of_dropout(module);
  at::NoGradGuard no_grad;
  nn::ParameterList parameters;
  for (const auto& item : module.named_parameters()) {
    auto parameter = std::make_shared<nn::Parameter>();
    parameter->name = item.key();
    parameter->shape = item.value().sizes().vec();
    parameter->trainable = item.value().requires_grad();
    parameter->tensor = item.value();
    at::Tensor values = item.value().detach().contiguous().view(-1);
    comm::broadcast(values, 0, context_.data_group(), comm::Reason::parameter);
    parameter->tensor.set_data(values.view(parameter->shape));
    parameters.emplace_back(std::move(parameter));
  }
  config.handles_used = false;
  return std::make_unique<Engine>(std::move(parameters), std::move(loss), context_, config);
}

}  // namespace colossal
