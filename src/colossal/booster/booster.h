// Prepares any model for training at a layout. This is the entry point of the library:
//
//   auto world = comm::single_world();                       // or ranks, see comm/world.h
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

  // For a model built from colossal::nn. Weights are initialised from config.seed.
  std::unique_ptr<Engine> boost(const nn::ParameterList& parameters, LossFunction loss,
                                EngineConfig config) const;

  // For a user's own torch module. Supports data parallelism, ZeRO, precision, optimizers and
  // checkpoints. The weights of rank 0 are used on all ranks. The module's dropout draws LibTorch's
  // random numbers, so with dropout the results depend on the layout; a warning is logged once.
  // Each rank keeps its own buffers unchanged. Throws ConfigError for axes other than dp.
  std::unique_ptr<Engine> boost(torch::nn::Module& module, LossFunction loss,
                                EngineConfig config) const;

  // For a chain of the user's own modules, with data parallelism and the stages of a pipeline. Each
  // stage has a contiguous part of the chain (parts_of_stages()). Parameters are named as those of
  // torch::nn::Sequential: "2.up.weight" in the third module, for any cut into stages. The weights
  // of the first replica are used in all replicas. Throws ConfigError if modules of two stages
  // share a parameter.
  std::unique_ptr<Engine> boost(const std::vector<ModulePart>& parts, EngineConfig config) const;

 private:
  const ParallelContext& context_;
};

}  // namespace colossal
