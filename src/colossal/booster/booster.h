// Prepares any model for training at a layout. This is the entry point of the library:
//
//   auto world = comm::single_world();  // one rank; for worlds of several ranks see comm/world.h
//   ParallelContext context(*world, Strategy{});
//   auto engine = Booster(context).boost(module, loss, {.optimizer = ..., .global_batch = 32});
//   StepResult result = engine->step({batch});
#pragma once

#include <memory>

#include "colossal/booster/engine.h"
#include "colossal/booster/module_stages.h"

namespace colossal {

class Booster {
 public:
  // `context` must outlive this and all engines.
  explicit Booster(const ParallelContext& context) : context_(context) {}

  // For a model built from colossal::nn, with these parameters. Initialises the weights from
  // config.seed.
  std::unique_ptr<Engine> boost(const nn::ParameterList& parameters, LossFunction loss,
                                EngineConfig config) const;

  // For a user's own torch module. Supports data parallelism, ZeRO, precision, optimizers and
  // checkpoints. The engine stores the module's parameters and updates them; `loss` runs the
  // module. The weights of rank 0 are used on all ranks. The module's dropout draws LibTorch's
  // random numbers, so with dropout the results depend on the layout; a warning is logged once. The
  // module's buffers are not synchronised: each rank keeps its own. Throws ConfigError for axes
  // other than dp.
  std::unique_ptr<Engine> boost(torch::nn::Module& module, LossFunction loss,
                                EngineConfig config) const;

  // For a chain of the user's own modules. Supports data parallelism and the stages of a pipeline.
  // Each stage has some consecutive modules of the chain (parts_of_stages()). Parameters are named
  // as in torch::nn::Sequential, however the chain is cut: "2.up.weight" in the third module. The
  // weights of the first replica are used in all replicas. Throws ConfigError for other axes, or if
  // modules of two stages share a parameter.
  std::unique_ptr<Engine> boost(const std::vector<ModulePart>& parts, EngineConfig config) const;

 private:
  const ParallelContext& context_;
};

}  // namespace colossal
