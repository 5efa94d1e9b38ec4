#include "colossal/engine/booster.h"

#include <fmt/format.h>

#include <utility>

#include "colossal/engine/foreign_parameters.h"

namespace colossal {
std::unique_ptr<Engine> Booster::boost(const nn::ParameterList& parameters, StagedModel model,
                                       EngineConfig config) const {
  auto engine = std::make_unique<Engine>(parameters, std::move(model), context_, config);
  engine->chunks().initialise(config.seed);
  return engine;
}

std::unique_ptr<Engine> Booster::boost(torch::nn::Module& module, LossFunction loss,
                                       EngineConfig config) const {
  refuse_axes_of_modules(context_.strategy(), /*in_parts=*/false);
  ForeignParameters parameters(context_);
  parameters.add(module, /*prefix=*/"", /*stage=*/0);
  config.uses_parameter_handles = false;
  return std::make_unique<Engine>(parameters.take(), std::move(loss), context_, config);
}

std::unique_ptr<Engine> Booster::boost(const std::vector<ModulePart>& parts,
                                       EngineConfig config) const {
  const Strategy& strategy = context_.strategy();
  refuse_axes_of_modules(strategy, /*in_parts=*/true);
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
