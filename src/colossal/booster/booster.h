// Makes any model trainable at a layout. The entry point of the library:
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
  // `context` must outlive the engines.
  explicit Booster(const ParallelContext& context) : context_(context) {}

  // A model built from colossal::nn; weights are made from config.seed.
  std::unique_ptr<Engine> boost(const nn::ParameterList& parameters, LossFunction loss,
                                EngineConfig config) const;

  // A user's own module: data parallelism, ZeRO, precision, optimizers and checkpoints. Its weights
  // are those of rank 0. Its own dropout draws LibTorch's numbers, so with dropout results depend
  // on the layout; that is said once. Buffers stay as they are on each rank. Throws ConfigError for
  // axes other than dp.
  std::unique_ptr<Engine> boost(torch::nn::Module& module, LossFunction loss,
                                EngineConfig config) const;

  // The same for a chain of modules, over replicas and the stages of a pipeline. Each stage has a
  // run of the modules (parts_of_stages()). Parameters are named as those of torch::nn::Sequential,
  // "2.up.weight" in the third one, whatever the cut. Initial weights are those of the ranks of the
  // first replica. Throws ConfigError for a parameter that modules of two stages share.
  std::unique_ptr<Engine> boost(const std::vector<ModulePart>& parts, EngineConfig config) const;

 private:
  const ParallelContext& context_;
};

}  // namespace colossal
